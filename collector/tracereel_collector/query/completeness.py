"""Completeness of a run: its emitters, stored event numbers, gaps and wrong clocks."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.model import WaitingEvents
from tracereel_collector.query.run.ledger import LedgerRow, verdict_of
from tracereel_collector.query.run.rows import NO_EMITTER, EmitterRow, RunReader
from tracereel_collector.query.run.serialize import milliseconds, moment
from tracereel_collector.query.run.tree import RunTree
from tracereel_collector.query.trace import Traces

CLOCK_NOTICED_MS = 1_000.0
"""Clock difference from the collector that is reported; smaller ones may be network delay."""


@dataclass(frozen=True, slots=True)
class CompletenessQuery:
    """Query of `GET /v1/traces/{trace_id}/completeness`."""

    reader: RunReader
    traces: Traces
    now_unix_nano: Callable[[], int] = time.time_ns

    def document(
        self, tenant: str, trace_id: str, waiting: WaitingEvents, *, linked: bool = True
    ) -> bytes:
        """Return the ledger as JSON; `waiting` describes events still in the queue."""
        queued = {"events": waiting.events, "all_looked_through": waiting.is_whole}
        try:
            run = self.traces.run(tenant, trace_id, linked=linked)
        except UnknownResourceError:
            if not waiting.events:
                raise
            return msgspec.json.encode(
                {"trace_id": trace_id, "verdict": "open", "events": 0, "in_queue": queued}
            )
        rows = self.reader.ledger(tenant, run.trace_ids)
        accounts = [row for row in rows if row.emitter_id]
        emitters = self.reader.emitters(
            tenant,
            {row.emitter_id for row in rows},
            now_unix_milli=self.now_unix_nano() // 1_000_000,
        )
        unnumbered = sum(row.events for row in rows if not row.emitter_id)
        return msgspec.json.encode(
            {
                "trace_id": trace_id,
                "verdict": verdict_of(accounts, unnumbered=unnumbered),
                "runs": list(run.trace_ids),
                "events": sum(row.events for row in rows),
                "spans": len(run.spans),
                "missing": sum(each.missing for each in accounts),
                "duplicates": sum(row.stored - row.events for row in rows),
                "unnumbered": unnumbered,
                "in_queue": queued,
                "emitters": [
                    _shown(each, emitters.get(each.emitter_id, NO_EMITTER)) for each in accounts
                ],
                "clocks": _clocks(run, emitters),
                "open_steps": [step.id for step in run.steps if step.end is None][:100],
                "truncated": run.truncated,
            }
        )


def _shown(each: LedgerRow, emitter: EmitterRow) -> dict[str, Any]:
    return {
        "emitter_id": each.emitter_id,
        "trace_id": each.trace_id,
        "state": emitter.state,
        "service": emitter.service or None,
        "host": emitter.host or None,
        "pid": emitter.pid,
        "seen": len(each.numbers),
        "expected": each.expected,
        "has_told_its_end": each.has_ended,
        "missing": each.missing,
        "gaps": each.gaps,
        "duplicates": each.stored - len(each.numbers),
        "first_event_at": moment(each.first_at),
        "last_event_at": moment(each.last_at),
        "last_heartbeat_at": emitter.last_heartbeat_at,
        "spooled": emitter.spooled,
        "dropped": emitter.dropped,
    }


def _clocks(run: RunTree, emitters: Mapping[str, EmitterRow]) -> list[dict[str, Any]]:
    """Return clocks that contradict other steps of the run or the collector's clock."""
    found: dict[str, dict[str, Any]] = {}
    for clock, shift in run.clocks.items():
        found[clock] = {"clock": clock, "moved_by_ms": milliseconds(shift)}
    for name, emitter in emitters.items():
        ahead = milliseconds(emitter.clock_ahead_nano)
        if ahead is not None and abs(ahead) >= CLOCK_NOTICED_MS:
            found.setdefault(name, {"clock": name})["ahead_of_collector_ms"] = ahead
    return [found[name] for name in sorted(found)]
