"""Comparison of results in a re-execution."""

from typing import Any, Final

from tracereel.tape.divergence import Report
from tracereel.tape.payloads import Packed, same

MAX_NOTES: Final = 20


def ends_alike(how: str, now: Any, recorded: Any) -> bool:
    """Return whether a run returned or raised the same as on the tape."""
    return same(now, recorded) or (how == "raised" and _alike(now, recorded))


def _alike(now: Any, recorded: Any) -> bool:
    """Return whether two exceptions have the same class, arguments and text."""
    keys = ("c", "args", "text")
    return all(isinstance(each, dict) for each in (now, recorded)) and all(
        now.get(key) == recorded.get(key) for key in keys
    )


def note_unread(report: Report, what: str, packed: Packed) -> None:
    """Add a note for objects that are compared by type only."""
    for problem in packed.problems:
        if problem.startswith("builtins:"):
            continue  # functions and generators have nothing to compare
        note = f"Note: {what} is compared by its type only: {problem} (tracereel.tape.register)."
        if note not in report.notes and len(report.notes) < MAX_NOTES:
            report.notes.append(note)
