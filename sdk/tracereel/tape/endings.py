"""Comparison of the end of a run, its result or exception, with the tape."""

from tracereel.tape.differences import (
    MAX_DIFFERENCES,
    comparable,
    differences,
    ends_alike,
    is_new_in_every_run,
)
from tracereel.tape.divergence import Divergence
from tracereel.tape.format import Tape
from tracereel.tape.payloads import Packed
from tracereel.tape.report import Report

NOT_ON_TAPE = "objects in the result that are not on the tape"
TOO_LONG = "the result of the run (it was too long to be kept)"


def difference(tape: Tape, report: Report, how: str, packed: Packed) -> Divergence | None:
    """Return how the end of a run differs from its tape, or `None`; note what cannot be compared."""
    closed = tape.closed
    if closed is None:
        return None
    report.note_unread("the result of the run", packed)
    if "v" in closed and closed["v"] is None and closed["how"] == how:
        report.not_compared.append(TOO_LONG)
        return None
    whole = tape.data(closed["v"]) if closed.get("v") else None
    now, recorded = comparable(packed.data, whole)
    if (now, recorded) != (packed.data, whole):
        report.not_compared.append(NOT_ON_TAPE)
    if closed["how"] == how and ends_alike(how, now, recorded):
        return None
    differing = differences(recorded, now)
    if closed["how"] == how and "framework" in tape.header and 0 < len(differing) < MAX_DIFFERENCES:
        # Frameworks give messages and runs ids that are new in every run.
        differing = tuple(each for each in differing if not is_new_in_every_run(each))
        if not differing:
            return None
    name = str(tape.header.get("name"))
    detail = "" if closed["how"] == how else f"it {how}, and {closed['how']} on the tape"
    return Divergence("output", name, name, 0, differing, detail=detail)
