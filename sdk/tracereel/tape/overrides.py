"""Changes of a fork: results of calls, arguments of live calls, and outcomes of decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracereel.tape import codec
from tracereel.tape.format import Tape, TapeError


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
_OBJECTS: Final = ("dataclass", "model", "record")


@dataclass(frozen=True, slots=True)
class Override:
    """One change to a run.

    Args:
        target: name of a tool, model or retrieval, the number of a call (from 1), or, with
            `chosen`, the type of a decision.
        result: result of the call, which is not made. For a stream, the list of its items.
        raises: exception that the call raises instead.
        arguments: arguments to replace in a live call, by name: another model, prompt or
            temperature.
        chosen: return value of a decision function, which is not run. If the function returned a
            recorded candidate (or an object with one as `chosen`), this must be a candidate too.
        any_value: whether `chosen` may be a value that was not a recorded candidate.
    """

    target: str | int
    result: Any = NOTHING
    raises: BaseException | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    chosen: Any = NOTHING
    any_value: bool = False


class Overrides:
    """Changes to one run."""

    def __init__(self, overrides: tuple[Override, ...]) -> None:
        self._all = overrides
        self._used: set[int] = set()
        self._called: dict[str, None] = {}
        """Names of the calls made so far, in order; `_decided` holds the decision types."""
        self._decided: dict[str, None] = {}
        self._last = 0

    def _of(self, name: str, number: int) -> list[Override]:
        return [each for each in self._all if each.target in (name, number)]

    def result_of(self, name: str, number: int) -> Override | None:
        """Return the override for the result of a call, or `None`."""
        self._called[name] = None
        self._last = number
        for each in self._of(name, number):
            if each.result is not NOTHING or each.raises is not None:
                self._used.add(id(each))
                return each
        return None

    def arguments_of(self, name: str, number: int) -> dict[str, Any]:
        """Return the arguments to replace in a live call."""
        found: dict[str, Any] = {}
        for each in self._of(name, number):
            if each.arguments:
                self._used.add(id(each))
                found.update(each.arguments)
        return found

    def decides(self, decision_type: str) -> bool:
        """Return whether a decision is forced."""
        return self.decision(decision_type)[0]

    def decision(self, decision_type: str) -> tuple[bool, Any]:
        """Return whether a decision is forced, and its value."""
        self._decided[decision_type] = None
        for each in self._all:
            if each.target == decision_type and each.chosen is not NOTHING:
                self._used.add(id(each))
                return True, each.chosen
        return False, None

    def unused(self) -> list[str]:
        """Return notes on overrides that matched no call or decision."""
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
    """Convert JSON data to a result; of a recorded object, change these fields."""
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
