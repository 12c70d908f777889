"""Execution of one run of a fleet file in this process, and its verdict as data."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from tracereel._core import replay_guard
from tracereel.errors import ReplayStoppedError
from tracereel.fleet.prompts import PromptChange, prompt_changes
from tracereel.fleet.verdicts import (
    MAX_CAUSES,
    MAX_NAMES,
    MAX_TEXT,
    Cause,
    RunVerdict,
    unclear,
)
from tracereel.tape import header
from tracereel.tape.divergence import Divergence
from tracereel.tape.entry import entry_point
from tracereel.tape.format import Tape, TapeError
from tracereel.tape.recorded_tools import check_tools
from tracereel.tape.replaying import Replaying, check, replay
from tracereel.tape.report import Report


def prepare(tape: Tape) -> None:
    """Import the program of a tape, and check that it still has the recorded tools.

    Raises:
        TapeError: the tape cannot be replayed here.
    """
    check(tape)
    # What reading the source needs is compiled once, not in each forked run.
    header.source_hash(entry_point(tape))
    check_tools(tape, loaded=False)
    check_tools(tape, loaded=True)


def described(tape: Tape) -> dict[str, Any]:
    """Return the name, agents and pipelines of a recorded run."""
    names: dict[str, list[str]] = {"agent": [], "pipeline": []}
    for call in tape.calls.values():
        kept = names.get(call.kind)
        if kept is not None and call.name not in kept and len(kept) < MAX_NAMES:
            kept.append(call.name[:200])
    return {
        "trace_id": tape.trace_id,
        "name": str(tape.header.get("name") or "")[:200],
        "recorded_at": str(tape.header.get("started") or "")[:40],
        "agents": tuple(names["agent"]),
        "pipelines": tuple(names["pipeline"]),
    }


def execute(tape: Tape, folder: str, *, root: str, stall_seconds: float) -> RunVerdict:
    """Replay a run in a throw-away directory; the program is already imported.

    The process is not used for anything else afterwards.
    """
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    with replay_guard.installed(stays=True):
        run = replay(tape, mode="report", stall_seconds=stall_seconds)
        with contextlib.suppress(ReplayStoppedError, TapeError):
            _call(run)
        return verdict_of(run.report, tape, root)


def _call(run: Replaying) -> None:
    """Call the recorded entry point; what the program raises is compared by the replay."""
    with contextlib.suppress(Exception, SystemExit, KeyboardInterrupt), run:
        run.call()


def verdict_of(report: Report, tape: Tape, root: str) -> RunVerdict:
    """Return a report as data of bounded size."""
    about = described(tape)
    if report.verdict == "inconclusive":
        reason = report.reasons[0] if report.reasons else None
        why, text = (reason.why, reason.text) if reason else ("inconclusive", report.headline)
        made = unclear(about.pop("trace_id"), why, text, **about)
        causes: tuple[Cause, ...] = made.causes
    else:
        causes = tuple(_cause(each, report, root) for each in report.divergences[:MAX_CAUSES])
    prompts: tuple[PromptChange, ...] = ()
    if report.verdict == "prompt_changed":
        prompts = prompt_changes(tape, report.divergences)
    return RunVerdict(
        **described(tape),
        verdict=report.verdict,
        prompts=prompts,
        causes=causes,
        text="" if report.verdict == "same" else _relative(str(report), root)[:MAX_TEXT],
        recorded_end=report.recorded.how if report.recorded is not None else "",
        end=report.ending.how if report.ending is not None else "",
        not_compared=tuple(report.not_compared),
        calls=report.call_count,
    )


def _cause(divergence: Divergence, report: Report, root: str) -> Cause:
    location, argument = divergence.location, ""
    if divergence.differences:
        argument = without_numbers(
            divergence.differences[0].where.partition(", from character ")[0]
        )
    ending = report.ending
    if ending is not None and ending.how == "raised" and _is_of_ending(divergence, report):
        location = location or ending.location
        argument = "raised " + _class_of(ending.data)
    return Cause(
        kind=divergence.kind,
        place=divergence.place[:400],
        code=_below(location or "", root)[:400],
        argument=argument[:200],
    )


def _is_of_ending(divergence: Divergence, report: Report) -> bool:
    """Return whether an exception explains a divergence: another output, or missing calls."""
    if divergence.kind == "output":
        return True
    returned = report.recorded is not None and report.recorded.how != "raised"
    return divergence.kind == "missing" and divergence.location is None and returned


def _class_of(data: Any) -> str:
    name = data.get("c") if isinstance(data, dict) else None
    return str(name or "an exception").rpartition(":")[2]


def without_numbers(where: str) -> str:
    """Return the path of an argument with `[*]` for each index."""
    parts = where.split("[")
    found = parts[0]
    for part in parts[1:]:
        index, bracket, rest = part.partition("]")
        found += f"[*]{rest}" if bracket and index.isdecimal() else f"[{part}"
    return found


def _relative(text: str, root: str) -> str:
    """Return a report with the files of the working tree relative to it."""
    return text.replace(f" at {Path(root).as_posix()}/", " at ")


def _below(location: str, root: str) -> str:
    """Return a location with the file relative to the working tree."""
    prefix = f"{Path(root).as_posix()}/"
    return location.removeprefix(prefix)
