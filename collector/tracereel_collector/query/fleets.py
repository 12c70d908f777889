"""Stored fleet replays: counts, and causes with their runs. Reports are stored with the runs."""

from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.query.event_contents import EventContents, StoredPayload
from tracereel_collector.query.store_reader import StoreReader, read_rows
from tracereel_collector.store.sql import query

MAX_FLEETS: Final = 100
MAX_PARTS: Final = 500
_BEHIND_ALL: Final = "fleet`"
"""Sorts behind every id of a fleet replay."""
Shown = TypeVar("Shown")


class _Part(msgspec.Struct):
    records: list[dict[str, Any]] = []


class FleetCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why runs differ."""

    kind: str = ""
    place: str = ""
    code: str = ""
    argument: str = ""
    count: int | None = None
    """Runs, of a cause that follows another one."""


class StoredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that differ for the same cause."""

    verdict: str
    cause: FleetCause
    count: int
    example: str
    runs: list[str]
    agents: dict[str, int] = {}
    pipelines: dict[str, int] = {}
    following: list[FleetCause] = []
    cost: dict[str, Any] | None = None


class FlakyRun(msgspec.Struct, frozen=True, kw_only=True):
    """Run whose repetitions have different verdicts."""

    trace_id: str
    verdicts: list[str] = []


class StoredFleet(msgspec.Struct, frozen=True, kw_only=True):
    """Fleet replay without its groups."""

    fleet_id: str
    time: str
    name: str = ""
    commit: str | None = None
    baseline: str = ""
    passed: bool
    failures: list[str] = []
    runs: int
    counts: dict[str, int] = {}
    coverage: float
    group_count: int = 0
    flaky: list[FlakyRun] = []
    fresh_processes: list[str] = []
    network: list[str] = []
    not_compared: dict[str, int] = {}
    cost: dict[str, Any] | None = None
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Fleets:
    """Queries of `GET /v1/fleets` and `GET /v1/fleets/{fleet_id}`."""

    store: StoreReader

    def page(self, tenant: str, *, before: str | None, limit: int) -> bytes:
        """Return fleet replays as JSON, newest first; pass `next` as `before` to continue."""
        given = {"tenant": tenant, "before": before or _BEHIND_ALL, "limit": limit}
        rows = read_rows(self.store, query("fleets"), tuple[str, int, str], **given)
        parts = self._records(tenant, [StoredPayload(number, text) for _, number, text in rows])
        shown = [_head(row[0], part) for row, part in zip(rows, parts, strict=True)]
        following = rows[-1][0] if len(rows) == limit else None
        return msgspec.json.encode({"fleets": list(filter(None, shown)), "next": following})

    def document(self, tenant: str, fleet_id: str) -> bytes:
        """Return a fleet replay with its groups as JSON."""
        given = {"tenant": tenant, "fleet_id": fleet_id, "limit": MAX_PARTS}
        rows = read_rows(self.store, query("fleet"), tuple[int, str], **given)
        parts = self._records(tenant, [StoredPayload(*row) for row in rows])
        head = _head(fleet_id, parts[0]) if parts else None
        if head is None:
            raise UnknownResourceError(
                f"Fleet replay not found: {fleet_id!r}", hint="see GET /v1/fleets"
            )
        groups = [_converted(each, StoredGroup) for part in parts for each in part]
        return msgspec.json.encode(
            {**msgspec.to_builtins(head), "groups": list(filter(None, groups))}
        )

    def _records(self, tenant: str, stored: list[StoredPayload]) -> list[list[dict[str, Any]]]:
        return [_records_of(text) for text in EventContents(self.store).whole(tenant, stored)]


def _records_of(payload: str) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(payload, type=_Part).records
    except msgspec.DecodeError:  # the sender's records have another form
        return []


def _head(fleet_id: str, records: list[dict[str, Any]]) -> StoredFleet | None:
    found = (_converted({**each, "fleet_id": fleet_id}, StoredFleet) for each in records[:1])
    return next(found, None)


def _converted(record: dict[str, Any], kind: type[Shown]) -> Shown | None:
    """Return a record of a kind; `None` if it is another one or of another form."""
    if record.get("r") != _RECORDS[kind]:
        return None
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError:
        return None


_RECORDS: Final[dict[type, str]] = {StoredFleet: "fleet", StoredGroup: "group"}
