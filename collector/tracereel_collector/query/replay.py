"""A run told in order: every event once, as it was sent, with a summary of what happened."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from tracereel.events import TRACE_ID_PATTERN
from tracereel_collector.errors import BadRequestError, NotFoundError
from tracereel_collector.store.sql import query

MAX_EVENTS = 50_000
"""Longest timeline given out at once; `summary.truncated` says when there was more."""


class Selects(Protocol):
    """What a query needs of the store."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...


class _Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One line of `replay.sql`, in its order of columns."""

    sequence_number: int
    ingested_at: str
    time: str
    unix_nano: int
    event_type: str
    agent_name: str
    pipeline_type: str
    status: str
    duration_ms: int | None
    tokens: int | None
    cost_usd: float | None
    payload: str


_TRACE_ID = re.compile(TRACE_ID_PATTERN)
_ROWS = msgspec.json.Decoder(_Row)


@dataclass(frozen=True, slots=True)
class Replay:
    """Answers `GET /v1/replay/{trace_id}`."""

    store: Selects

    def document(self, tenant: str, trace_id: str) -> bytes:
        """The run as JSON: `trace_id`, `timeline`, `summary`.

        The events' own bytes are spliced in: nothing that was sent can change on the way.

        Raises:
            NotFoundError: this tenant has no event of that trace.
        """
        answer = self.store.select(
            query("replay"),
            {"tenant": tenant, "trace_id": trace_id, "limit": MAX_EVENTS + 1},
            fmt="JSONCompactEachRow",
        )
        rows: list[_Row] = _ROWS.decode_lines(answer)
        if not rows:
            raise NotFoundError(
                f"no event of trace {trace_id!r}",
                hint="events appear within a second of their acknowledgement",
            )
        truncated = len(rows) > MAX_EVENTS
        del rows[MAX_EVENTS:]
        timeline = b",".join(_entry(row, tenant) for row in rows)
        return b'{"trace_id":%b,"timeline":[%b],"summary":%b}' % (
            msgspec.json.encode(trace_id),
            timeline,
            msgspec.json.encode({**summary(rows), "truncated": truncated}),
        )


def _entry(row: _Row, tenant: str) -> bytes:
    added = {
        "tenant": tenant,
        "sequence_number": row.sequence_number,
        "ingested_at": row.ingested_at,
    }
    details = row.payload.encode().rstrip()[:-1] + b"," + msgspec.json.encode(added)[1:]
    head = msgspec.json.encode({"time": row.time, "event": row.event_type})[:-1]
    return head + b',"details":' + details + b"}"


def summary(rows: Iterable[_Row]) -> dict[str, Any]:
    """What a run amounts to, from its events."""
    rows = list(rows)
    # Users' own types may be called what they like: they are neither failures nor retries.
    types = [row.event_type for row in rows if row.event_type.startswith("agent.")]
    agents = list(dict.fromkeys(row.agent_name for row in rows if row.agent_name))
    moments = [row.unix_nano for row in rows]
    closing = [row for row in rows if row.event_type == "agent.pipeline.completed"]
    # Model calls are the finest grain there is; executions speak only where there are none.
    calls = [row for row in rows if row.event_type == "agent.llm.called"] or [
        row for row in rows if row.event_type == "agent.execution.completed"
    ]
    return {
        "total_events": len(rows),
        "agents_executed": len(agents),
        "total_time_ms": (max(moments) - min(moments)) // 1_000_000,
        "errors": sum("failed" in name for name in types),
        "retries": sum("retry" in name for name in types),
        "fallbacks": sum("fallback" in name for name in types),
        "decisions": sum("decision" in name for name in types),
        "agents": agents,
        "pipeline_type": next((row.pipeline_type for row in rows if row.pipeline_type), None),
        "status": closing[-1].status if closing else None,
        "llm_tokens_used": _sum_known(row.tokens for row in calls),
        "llm_cost_usd": _sum_known(row.cost_usd for row in calls),
    }


def _sum_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def check_trace_id(trace_id: str) -> str:
    """A trace id as the contract allows it.

    Raises:
        BadRequestError: it has another form.
    """
    if not _TRACE_ID.fullmatch(trace_id):
        raise BadRequestError(
            f"trace id {trace_id[:140]!r} is not valid; expected 1 to 128 letters, digits, _ . : -"
        )
    return trace_id
