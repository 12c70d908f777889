"""The data that rooms hand to each other: plain, frozen, without behaviour."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

OTLP_DEPTH = 1
"""Levels of lists and maps in an OTLP value that the store reads; the door writes deeper ones as JSON.

Each level doubles the columns and expressions of the engine, for spans that do not nest at all too.
"""


class Kind(StrEnum):
    """What a queued body is made of; also the `kind` label of the conservation counters."""

    EVENTS = "events"
    SPANS = "spans"
    LOGS = "logs"
    METRICS = "metrics"
    HEARTBEATS = "heartbeats"
    SCORES = "scores"


SESSION_FLAG = "session_user_mismatch"
"""The field set on an event that claims a user for a session which another one owns."""

Owner = tuple[str, str]
"""A session and the user that an event claims for it."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of a body that one emitter numbered consecutively.

    `emitter_id` is None for records without a ledger: they are never known to be duplicates.
    """

    emitter_id: str | None
    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A checked request body on its way into the queue."""

    kind: Kind
    tenant: str
    received_unix_nano: int
    data: bytes
    records: int
    rejected: int = 0
    rejected_reasons: tuple[tuple[str, int], ...] = ()
    """How many were rejected for which of a few named reasons; the rest counts as `other`."""
    runs: tuple[Run, ...] = ()
    owners: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the queue answers once a body is durable."""

    appended: int
    duplicates: int
    first_sequence_number: int | None
    body_id: int | None
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedBody:
    """A body as delivery reads it back from the queue."""

    id: int
    kind: Kind
    tenant: str
    first_sequence_number: int
    records: int
    received_unix_nano: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A sealed range of bodies of one kind: its content and token never change."""

    id: int
    kind: Kind
    first_body: int
    last_body: int
    records: int
    size: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A record the store refused for what it contains."""

    kind: Kind
    tenant: str
    sequence_number: int
    records: int
    received_unix_nano: int
    data: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What of a tenant was deleted: runs, users, and OpenTelemetry traces in hexadecimal."""

    traces: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    otel: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: Mapping[str, Iterable[str]]) -> "Marks":
        """From names by what they name."""
        return cls(**{what: frozenset(names) for what, names in pairs.items()})

    def pairs(self) -> list[tuple[str, str]]:
        """Each name with what it names."""
        return [
            (what, name)
            for what in ("traces", "users", "otel")
            for name in sorted(getattr(self, what))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """A quarantined record as an operator sees it; `data` only where it was asked for."""

    id: int
    kind: str
    tenant: str
    sequence_number: int
    records: int
    size: int
    reason: str
    received_unix_nano: int
    quarantined_unix_nano: int
    data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Events of a run that are acknowledged and not yet in the store."""

    events: int
    is_whole: bool
    """Whether all that waits was looked through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHealth:
    """What an agent did in the last minutes."""

    tenant: str
    agent: str
    ended: int
    failed: int
    retries: int
    fallbacks: int
    confidence: float | None
    """On average; None where none was told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What models cost a tenant: lately, and usually."""

    tenant: str
    usd_per_hour: float
    usd_per_hour_of_day: float
