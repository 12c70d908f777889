"""Outcome of a re-execution, stored with the original run: its divergences or the new branch.

It is sent as a separate tape part (`agent.tape.recorded`), so that it is found with the run but is
not one of its events. The event has the timestamp of the original run.
"""

from typing import TYPE_CHECKING, Any, Final

from tracereel import semconv
from tracereel._runtime.clock import rfc3339, sortable_id
from tracereel.tape import format as tape_format
from tracereel.tape import header, payloads
from tracereel.tape.differences import shown
from tracereel.tape.overrides import NOTHING, Override
from tracereel.tape.report import Report

if TYPE_CHECKING:
    from tracereel._redact.event_redaction import Privacy

MAX_DIVERGENCES: Final = 20
REPLAYED: Final = "replayed"


def outcome(
    tape: tape_format.Tape,
    report: Report,
    *,
    mode: str,
    now_ns: int,
    privacy: "Privacy",
    branch: str | None = None,
    at: int | None = None,
    overrides: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """Return the event that describes a re-execution; its values are redacted."""
    stopped = [f"Note: it was stopped: {report.refused}."] if report.refused else []
    record: dict[str, Any] = {
        "r": REPLAYED,
        "time": rfc3339(now_ns),
        "mode": mode,
        "identical": report.identical,
        "verdict": report.verdict,
        "served": report.served,
        "live": report.live,
        "divergences": privacy.payload(
            [each.as_record() for each in report.divergences[:MAX_DIVERGENCES]]
        )[0],
        "divergence_count": len(report.divergences),
        "notes": privacy.payload([*stopped, *report.notes][:MAX_DIVERGENCES])[0],
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
        "replayed": True,
        "records": [record],
    }


def override_record(override: Override, privacy: "Privacy | None") -> dict[str, Any]:
    """Return the changes of an override as short redacted texts."""

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
