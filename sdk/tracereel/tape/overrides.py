"""What a fork changes: the result of a call, the arguments of live calls, the outcome of a decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tracereel.tape import codec

if TYPE_CHECKING:
    from tracereel.tape.format import Tape


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
_OBJECTS: Final = ("dataclass", "model", "record")


@dataclass(frozen=True, slots=True)
class Override:
    """One change to a run.

    Args:
        target: name of a tool, model or retrieval, the number of a call (from 1 on), or, with
            `chosen`, the type of a decision.
        result: what the call gives instead; it is not made. For a stream, the list of its parts.
        raises: what the call raises instead.
        arguments: what a live call is given instead, by name: another model, prompt or temperature.
        chosen: what a decision function gives instead; it is not run. One of the candidates that were
            recorded, if it gave one of them (or an object that has one as `chosen`).
        any_value: whether `chosen` may also be none of them: an outcome that is new in the program.
    """

    target: str | int
    result: Any = NOTHING
    raises: BaseException | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    chosen: Any = NOTHING
    any_value: bool = False


class Overrides:
    """The changes of one run."""

    def __init__(self, overrides: tuple[Override, ...]) -> None:
        self._all = overrides
        self._used: set[int] = set()
        self._called: dict[str, None] = {}
        """Names of the calls that came by, in their order; likewise the decisions."""
        self._decided: dict[str, None] = {}
        self._last = 0

    def _of(self, name: str, number: int) -> list[Override]:
        return [each for each in self._all if each.target in (name, number)]

    def result_of(self, name: str, number: int) -> Override | None:
        """What a call that came by gives instead of its own result, if anything."""
        self._called[name] = None
        self._last = number
        for each in self._of(name, number):
            if each.result is not NOTHING or each.raises is not None:
                self._used.add(id(each))
                return each
        return None

    def arguments_of(self, name: str, number: int) -> dict[str, Any]:
        """Arguments that a live call gets in place of its own."""
        found: dict[str, Any] = {}
        for each in self._of(name, number):
            if each.arguments:
                self._used.add(id(each))
                found.update(each.arguments)
        return found

    def decides(self, decision_type: str) -> bool:
        """Whether a decision is forced."""
        return self.decision(decision_type)[0]

    def decision(self, decision_type: str) -> tuple[bool, Any]:
        """Whether a decision is forced, and to what."""
        self._decided[decision_type] = None
        for each in self._all:
            if each.target == decision_type and each.chosen is not NOTHING:
                self._used.add(id(each))
                return True, each.chosen
        return False, None

    def unused(self) -> list[str]:
        """Of the changes that nothing came by for, what they were to change, and what did come by."""
        notes = []
        for each in self._all:
            if id(each) in self._used:
                continue
            if each.arguments and self._came_by(each.target):
                notes.append(
                    f"Note: {each.target!r} was served, not made: what a call is given can be changed"
                    " only where it is made, in a fork (--fork)."
                )
                continue
            decides = each.chosen is not NOTHING
            kind, came = ("decision", self._decided) if decides else ("call", self._called)
            there = f"there were {', '.join(came)}" if came else "there was none"
            notes.append(
                f"Note: no {kind} {each.target!r} came by ({there}):"
                " what was to be changed there was not."
            )
        return notes

    def _came_by(self, target: str | int) -> bool:
        return target in self._called or (isinstance(target, int) and target <= self._last)


def result_like(tape: "Tape", target: str | int, changes: Any) -> Any:
    """A result of JSON data; where a call gave an object, that object with these fields changed.

    Raises:
        TapeError: the object has no such field.
    """
    from tracereel.tape.format import TapeError

    made = tape.boundaries()
    call = next((c for n, c in enumerate(made, 1) if target in (c.name, n)), None)
    if not isinstance(changes, dict) or call is None or call.end is None or call.end.value is None:
        return changes
    recorded = tape.data(call.end.value)
    if not isinstance(recorded, dict) or recorded.get(codec.TAG) not in _OBJECTS:
        return changes
    known = recorded["v"]
    if unknown := [name for name in changes if name not in known]:
        kind = str(recorded.get("c", "")).rpartition(":")[2]
        raise TapeError(f"{kind} has no {', '.join(unknown)}; its fields are {', '.join(known)}")
    return codec.decode({**recorded, "v": _merged(known, changes)})


def _merged(known: Any, changes: Any) -> Any:
    if not isinstance(known, dict) or not isinstance(changes, dict):
        return codec.encode(changes).data
    if known.get(codec.TAG) in _OBJECTS:
        return {**known, "v": _merged(known["v"], changes)}
    return {**known, **{name: _merged(known.get(name), value) for name, value in changes.items()}}
