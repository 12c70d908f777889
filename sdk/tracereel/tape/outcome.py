"""What came of a re-execution, kept with the run it repeats: its divergences, or the branch it made.

It travels as a part of a tape of its own (`agent.tape.recorded`), so that it is found with the run and is
no event of it. The event has the time of the run: when it was repeated says nothing about that one.
"""

from typing import TYPE_CHECKING, Any, Final

from tracereel import semconv
from tracereel._clock import rfc3339, sortable_id
from tracereel.tape import format as tape_format
from tracereel.tape import header, payloads
from tracereel.tape.differences import shown
from tracereel.tape.divergence import Report
from tracereel.tape.overrides import NOTHING, Override

if TYPE_CHECKING:
    from tracereel._privacy import Privacy

MAX_DIVERGENCES: Final = 20
REPLAYED: Final = "replayed"


def outcome(
    tape: tape_format.Tape,
    report: Report,
    *,
    mode: str,
    now_ns: int,
    branch: str | None = None,
    at: int | None = None,
    overrides: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """The event that tells of a re-execution."""
    stopped = [f"Note: it was stopped: {report.refused}."] if report.refused else []
    record: dict[str, Any] = {
        "r": REPLAYED,
        "time": rfc3339(now_ns),
        "mode": mode,
        "identical": report.identical,
        "served": report.served,
        "live": report.live,
        "divergences": [each.as_record() for each in report.divergences[:MAX_DIVERGENCES]],
        "divergence_count": len(report.divergences),
        "notes": [*stopped, *report.notes][:MAX_DIVERGENCES],
        "commit": header.about()["commit"],
    }
    if branch is not None:
        record |= {"branch": branch, "at": at, "overrides": list(overrides)}
    return {
        "event_id": sortable_id("evt"),
        "event_type": semconv.TAPE_RECORDED,
        "event_version": semconv.EVENT_VERSION,
        "timestamp": tape.header["started"],
        "trace_id": tape.trace_id,
        "tape_id": sortable_id("rpl"),
        "tape_version": tape_format.VERSION,
        "part": 0,
        "records": [record],
    }


def told(override: Override, privacy: "Privacy | None") -> dict[str, Any]:
    """What an override changes, in short texts without secrets."""

    def text(value: Any) -> str:
        return shown(payloads.pack(value, privacy).data)

    found: dict[str, Any] = {"target": override.target}
    if override.result is not NOTHING:
        found["result"] = text(override.result)
    if override.raises is not None:
        found["raises"] = text(f"{type(override.raises).__name__}: {override.raises}")
    if override.arguments:
        found["arguments"] = {name: text(value) for name, value in override.arguments.items()}
    if override.chosen is not NOTHING:
        found["chosen"] = text(override.chosen)
    return found
