"""Data types shared by the packages: frozen dataclasses without behaviour."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

OTLP_DEPTH = 1
"""Nesting depth of OTLP values that the store reads; ingest writes deeper ones as JSON.

Each level doubles the columns and expressions in the engine, even for spans without nesting.
"""


class Kind(StrEnum):
    """Type of records in a queued body; also the `kind` label of the conservation counters."""

    EVENTS = "events"
    SPANS = "spans"
    LOGS = "logs"
    METRICS = "metrics"
    HEARTBEATS = "heartbeats"
    SCORES = "scores"


SESSION_FLAG = "session_user_mismatch"
"""Field set on an event whose user differs from the owner of its session."""

SPAN_EVENT = "otel.span"
"""Event type of spans of other instrumentations, live and in replays."""
SPAN_MARK = "otel.span_event"
"""Event type in replays of events that a program added to a span."""

SESSION_OWNER = "session_owner"
"""Reason of a rejection: the session of the event belongs to another user."""

Owner = tuple[str, str]
"""Session id and the user that an event claims for it."""


@dataclass(frozen=True, slots=True)
class EmitterRun:
    """Consecutive records of a body with consecutive numbers of one emitter.

    `emitter_id` is None for records without a ledger; they are never deduplicated.
    """

    emitter_id: str | None
    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Validated request body to append to the queue."""

    kind: Kind
    tenant: str
    received_unix_nano: int
    data: bytes
    records: int
    rejected: int = 0
    rejected_reasons: tuple[tuple[str, int], ...] = ()
    """Rejected records by named reason; the rest counts as `other`."""
    runs: tuple[EmitterRun, ...] = ()
    owners: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Result of an append, returned once the body is durable."""

    appended: int
    duplicates: int
    first_sequence_number: int | None
    body_id: int | None
    foreign: frozenset[Owner] = frozenset()
    """Claims of users who do not own their session; events with them were refused."""
    refused: int = 0
    """Number of these events."""
    relayed: tuple[tuple[str, int], ...] = ()
    """Owners that the records are relayed to, each with the id of the relay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Acknowledged body on its way to the member that owns it."""

    id: int
    """Rises for each sending queue and is never used twice."""
    body: Body
    passed: str = ""
    """Collectors that forwarded the request before."""
    is_awaited: bool = False
    """Whether a request waits for the owner's receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayReceipt:
    """Owner's result for a relayed body."""

    appended: int
    duplicates: int
    refused: int
    first_sequence_number: int | None
    body_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedBody:
    """Body that delivery read from the queue."""

    id: int
    kind: Kind
    tenant: str
    first_sequence_number: int
    records: int
    received_unix_nano: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sealed range of bodies of one kind; its content and token never change."""

    id: int
    kind: Kind
    first_body: int
    last_body: int
    records: int
    size: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """Record that the store refused because of its content."""

    kind: Kind
    tenant: str
    sequence_number: int
    records: int
    received_unix_nano: int
    data: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Deleted runs, users and OpenTelemetry traces (hexadecimal) of a tenant."""

    traces: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    otel: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: Mapping[str, Iterable[str]]) -> "Marks":
        """Create marks from names grouped by field."""
        return cls(**{what: frozenset(names) for what, names in pairs.items()})

    def pairs(self) -> list[tuple[str, str]]:
        """Return each name with its field."""
        return [
            (what, name)
            for what in ("traces", "users", "otel")
            for name in sorted(getattr(self, what))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """Quarantined record for operators; `data` only if requested."""

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
class WaitingEvents:
    """Acknowledged events of a run that are not yet in the store."""

    events: int
    is_whole: bool
    """Whether all waiting bodies were searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHealth:
    """Counts of an agent in the last minutes."""

    tenant: str
    agent: str
    ended: int
    failed: int
    retries: int
    fallbacks: int
    confidence: float | None
    """Average; None without recorded values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Model cost of a tenant: recent and usual."""

    tenant: str
    usd_per_hour: float
    usd_per_hour_of_day: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpricedCalls:
    """Model calls of a tenant without a cost, because no price is known."""

    tenant: str
    calls: int
