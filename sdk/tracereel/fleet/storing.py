"""Storage of a fleet replay in a collector, for its page.

The report of a replay has content of its run, so it is stored with that run as a replay of it: who may
read or delete the run reads or deletes its report. What the runs have in common (counts, causes, ids)
is stored under an id of its own, in parts like those of a tape.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tracereel import semconv
from tracereel._redact.event_redaction import Privacy
from tracereel._runtime.clock import rfc3339, sortable_id
from tracereel.client import Client
from tracereel.fleet.groups import CauseGroup, FleetPolicy, FleetSummary
from tracereel.fleet.report import as_json
from tracereel.fleet.verdicts import Cause, RunVerdict
from tracereel.tape import format as tape_format
from tracereel.tape import header, rules
from tracereel.tape.outcome import REPLAYED

PREFIX: Final = "fleet"
MAX_REPORTS: Final = 1_000
"""Runs whose reports are stored, the first ones of each group."""
MAX_GROUPS: Final = 200
MAX_RUNS: Final = 500
"""Ids that a group lists."""
_MAX_PART_BYTES: Final = 256 * 1024
_EVENTS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class KeptFleet:
    """Stored fleet replay."""

    fleet_id: str
    reports: int
    left_out: int
    """Runs that differ, whose reports were not stored."""


def store(
    client: Client,
    verdicts: Iterable[RunVerdict],
    summary: FleetSummary,
    policy: FleetPolicy,
    *,
    name: str = "",
    baseline: str = "",
) -> KeptFleet:
    """Store a fleet replay and the reports of the runs that differ.

    Raises:
        ClientError: the collector cannot be reached, or refuses it.
    """
    fleet_id, privacy = sortable_id(PREFIX), rules.outgoing()
    differing = {each.trace_id: each for each in verdicts if each.kind != "same"}
    chosen = list(_first_of_each(summary, MAX_REPORTS))
    about = {"time": rfc3339(time.time_ns()), "commit": header.about()["commit"]}
    head = _head(summary, policy) | about | {"name": name[:200], "baseline": baseline[:200]}
    groups = [_group(each, privacy) for each in summary.groups[:MAX_GROUPS]]
    _send(client, _parts(fleet_id, about["time"], [{"r": PREFIX, **head}, *groups]))
    notes = (
        _note(fleet_id, differing[trace_id], about, privacy)
        for trace_id in chosen
        if trace_id in differing
    )
    accepted = _send(client, notes)
    return KeptFleet(fleet_id, accepted, len(differing) - accepted)


def _first_of_each(summary: FleetSummary, most: int) -> Iterator[str]:
    """Yield runs of all groups in turns, examples first, then flaky ones."""
    lists = [
        [group.example.trace_id, *(run for run in group.runs if run != group.example.trace_id)]
        for group in summary.groups
    ] + [[each.trace_id for each in summary.flaky]]
    for at in range(max(map(len, lists))):
        for each in lists:
            if at < len(each) and most > 0:
                most -= 1
                yield each[at]


def _head(summary: FleetSummary, policy: FleetPolicy) -> dict[str, Any]:
    found = as_json(summary, policy)
    found["flaky"] = found["flaky"][:MAX_RUNS]
    groups = found.pop("groups")
    return found | {"group_count": len(groups)}


def _group(group: CauseGroup, privacy: Privacy) -> dict[str, Any]:
    found = group.to_json()
    found["cause"] = _redacted(found["cause"], privacy)
    found["following"] = [_redacted(each, privacy) for each in found["following"]]
    found["example"] = group.example.trace_id
    return {"r": "group", **found, "runs": found["runs"][:MAX_RUNS]}


def _redacted(cause: Mapping[str, Any], privacy: Privacy) -> dict[str, Any]:
    """Return a cause whose texts are redacted; ids, names and counts are not searched."""
    return {
        name: privacy.text(value) if isinstance(value, str) else value
        for name, value in cause.items()
    }


def _parts(
    fleet_id: str, timestamp: str, records: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield events with as many records as fit; the first has the head alone."""
    part, waiting, size = 0, list[Mapping[str, Any]](), 0
    for record in records:
        coming = len(msgspec.json.encode(record))
        if waiting and (part == 0 or size + coming > _MAX_PART_BYTES):
            yield _event(fleet_id, fleet_id, timestamp, part, waiting)
            part, waiting, size = part + 1, [], 0
        waiting.append(record)
        size += coming
    yield _event(fleet_id, fleet_id, timestamp, part, waiting)


def _note(
    fleet_id: str, verdict: RunVerdict, about: Mapping[str, Any], privacy: Privacy
) -> dict[str, Any]:
    """Return the event that stores the report of a run with the run."""
    record = {
        "r": REPLAYED,
        **about,
        "fleet": fleet_id,
        "mode": "report",
        "identical": False,
        "verdict": verdict.kind,
        "served": verdict.calls,
        "live": 0,
        "divergence_count": 0 if verdict.verdict == "inconclusive" else len(verdict.causes),
        "notes": [],
        "divergences": [_redacted(_divergence(each), privacy) for each in verdict.causes],
        "text": privacy.text(verdict.text),
    }
    timestamp = verdict.recorded_at or str(about["time"])
    return _event(verdict.trace_id, sortable_id("rpl"), timestamp, 0, [record])


def _divergence(cause: Cause) -> dict[str, Any]:
    return {
        "kind": cause.kind,
        "path": cause.place,
        "detail": cause.argument,
        "location": cause.code or None,
        "differences": [],
    }


def _event(
    trace_id: str, tape_id: str, timestamp: str, part: int, records: list[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "event_id": sortable_id("evt"),
        "event_type": semconv.TAPE_RECORDED,
        "event_version": semconv.EVENT_VERSION,
        "timestamp": timestamp,
        "trace_id": trace_id,
        "tape_id": tape_id,
        "tape_version": tape_format.VERSION,
        "part": part,
        "replayed": True,
        "records": list(records),
    }


def _send(client: Client, events: Iterable[dict[str, Any]]) -> int:
    """Send events; return how many were accepted."""
    waiting, size, accepted = list[dict[str, Any]](), 0, 0
    for event in events:
        waiting.append(event)
        size += len(msgspec.json.encode(event["records"]))
        if len(waiting) >= _EVENTS_AT_ONCE or size > 4 * _MAX_PART_BYTES:
            accepted += _post(client, waiting)
            waiting, size = [], 0
    return accepted + (_post(client, waiting) if waiting else 0)


def _post(client: Client, events: list[dict[str, Any]]) -> int:
    answer = client.post_json("/v1/events", events, {"wait": "stored"})
    return len(events) - len(answer.get("rejected") or ())
