"""Refusals and divergences of other threads and processes of a replay."""

import os
from collections.abc import Container
from typing import Any

from tracereel._core import replay_guard
from tracereel._core.tape_session import RUNS, Live
from tracereel.errors import NotAllowedError
from tracereel.tape.divergence import KINDS, Divergence
from tracereel.tape.format import BOUNDARIES
from tracereel.tape.report import Report

MAX_FOUND = 100


def note(divergence: Divergence) -> None:
    """Report a divergence in this child to the process that runs the replay."""
    guard = replay_guard.here()
    if guard is not None:
        record = divergence.as_record()
        del record["differences"]
        guard.note({"divergence": record, "about": [str(each) for each in divergence.differences]})


def begin(about: dict[str, Any], allowed: Container[str]) -> Live:
    """Run a call of a forked child, which is not on its parent's tape, if it has no side effects."""
    kind, name, effect = about["kind"], about["name"], about["effect"]
    risky = kind in BOUNDARIES and replay_guard.changes_something(kind, effect)
    if risky and not replay_guard.is_allowed(allowed, name, about["around"]):
        text = replay_guard.refusal(name, effect)
        if (guard := replay_guard.here()) is not None:
            guard.note({"refused": text, "name": name})
        raise NotAllowedError(text)
    return RUNS


def add_to(report: Report, known: int) -> int:
    """Add what the guard of this process has noted to a report.

    Args:
        known: number of records that the report has.

    Returns:
        The number of records that it has now.
    """
    guard = replay_guard.here()
    if guard is None:
        return known
    records = guard.noted()[:MAX_FOUND]
    for record in records[known:]:
        where = _where(record)
        if "refused" in record:
            report.refused = report.refused or f"{record['refused']}{where}"
        elif "network" in record:
            _add_network(report, str(record["network"]), where)
        elif isinstance(record.get("divergence"), dict):
            _add_divergence(report, record, where)
    return len(records)


def _where(record: dict[str, Any]) -> str:
    if record.get("pid") != os.getpid():
        return f" (in a child process, {record.get('pid')})"
    thread = record.get("thread")
    return "" if thread in (None, "MainThread") else f" (in thread {thread})"


def _add_network(report: Report, host: str, where: str) -> None:
    if any(each.kind == "network" and each.name == host for each in report.divergences):
        return
    report.divergences.append(Divergence("network", host, f"{host}{where}", 0))


def _add_divergence(report: Report, record: dict[str, Any], where: str) -> None:
    found = record["divergence"]
    if found.get("kind") not in KINDS:
        return
    about = record.get("about") or ()
    detail = "\n".join([*map(str, about), *filter(None, [str(found.get("detail") or "")])])
    report.divergences.append(
        Divergence(
            found["kind"],
            str(found.get("name")),
            f"{found.get('path')}{where}",
            0,
            location=found.get("location"),
            detail=detail,
            call_kind=str(found.get("call_kind") or ""),
        )
    )
