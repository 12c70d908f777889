"""What counts as the same in a re-execution, and which values are not looked into."""

from typing import Any, Final

from tracereel.tape.divergence import Report
from tracereel.tape.payloads import Packed, same

MAX_NOTES: Final = 20


def ends_alike(how: str, now: Any, recorded: Any) -> bool:
    """Whether a run that ended so has given, or raised, what it did on the tape."""
    return same(now, recorded) or (how == "raised" and _alike(now, recorded))


def _alike(now: Any, recorded: Any) -> bool:
    """Whether two exceptions are the same but for what hangs on them."""
    keys = ("c", "args", "text")
    return all(isinstance(each, dict) for each in (now, recorded)) and all(
        now.get(key) == recorded.get(key) for key in keys
    )


def note_unread(report: Report, what: str, packed: Packed) -> None:
    """Say in a report of which objects nothing but the type is compared."""
    for problem in packed.problems:
        if problem.startswith("builtins:"):
            continue  # functions and generators: there is nothing to compare
        note = f"Note: {what} is compared by its type only: {problem} (tracereel.tape.register)."
        if note not in report.notes and len(report.notes) < MAX_NOTES:
            report.notes.append(note)
