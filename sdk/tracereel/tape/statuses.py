"""Comparison of how agents and pipelines inside of a run end: status, exception and confidence."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tracereel._core import error_details, result_fields
from tracereel._core.tape_session import Live
from tracereel.errors import ReplayStoppedError
from tracereel.tape import classes
from tracereel.tape.divergence import Divergence, DivergenceError
from tracereel.tape.format import Call, TapeStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracereel._core.context import Execution
    from tracereel.tape.player import Player

COMPARED: Final = frozenset({"agent", "pipeline"})


def confidence_of(notes: "Mapping[str, Any]", result: Any) -> float | None:
    """Return the confidence that an execution has set, else that of its result."""
    known = notes.get("confidence", result_fields.DEFAULT.read(result).get("confidence"))
    return float(known) if known is not None else None


def status_of(how: str, value: Any, notes: "Mapping[str, Any]") -> dict[str, Any]:
    """Return the fields of a status record."""
    if how == "raised":
        return {"how": how, "c": classes.path_of(type(value))}
    confidence = confidence_of(notes, value)
    return {"how": how} if confidence is None else {"how": how, "confidence": confidence}


class ScopeCall(Live):
    """Agent or pipeline inside of a run; its end is compared with the tape."""

    __slots__ = ("_call", "_execution", "_path", "_player")

    def __init__(self, player: "Player", call: Call, path: str, execution: "Execution") -> None:
        self._player = player
        self._call = call
        self._path = path
        self._execution = execution

    def returned(self, result: Any) -> None:
        """Compare the end of a call that returned."""
        self._compare("returned", result)

    def raised(self, error: BaseException) -> None:
        """Compare the end of a call that raised."""
        if isinstance(error, ReplayStoppedError) or error_details.cancels(error):
            return
        # The program's exception goes on; the end of the replay block raises the divergence.
        with suppress(DivergenceError):
            self._compare("raised", error)

    def _compare(self, how: str, value: Any) -> None:
        recorded = self._player.tape.statuses.get(self._call.number)
        if recorded is None:
            return
        now = status_of(how, value, self._execution.notes)
        if detail := difference(recorded, now):
            name = self._call.name
            self._player.differs(Divergence("output", name, self._path, 0, detail=detail))


def difference(recorded: TapeStatus, now: "Mapping[str, Any]") -> str:
    """Return how a status differs from that on the tape, or an empty string."""
    if now["how"] != recorded.how:
        return f"it {now['how']}, and {recorded.how} on the tape"
    if now.get("c") != recorded.kind:
        return f"it raised {_name(now.get('c'))}, and {_name(recorded.kind)} on the tape"
    if now.get("confidence") != recorded.confidence:
        return f"its confidence is {now.get('confidence')}, and {recorded.confidence} on the tape"
    return ""


def _name(path: str | None) -> str:
    return str(path).rpartition(":")[2]
