"""Changes of a fork: results of calls, arguments of live calls, and outcomes of decisions."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracereel._redact import safe_access
from tracereel._redact.event_redaction import Privacy
from tracereel.tape import codec
from tracereel.tape.differences import shown
from tracereel.tape.format import Tape, TapeDecision, TapeError
from tracereel.tape.payloads import MissingPayloadError, pack, same


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
_OBJECTS: Final = ("dataclass", "model", "record")
MAX_CANDIDATES: Final = 1000
_NAMED: Final = 20
"""Candidates that an error message lists."""


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


def result_like(tape: Tape, target: str | int, changes: Any) -> Any:
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


def encoded_candidates(candidates: object) -> codec.EncodedValue | None:
    """Encode candidates for a tape; None for none, too many, or any that cannot be encoded."""
    items = safe_access.items(candidates, MAX_CANDIDATES + 1)
    if not items or len(items) > MAX_CANDIDATES:
        return None
    found = codec.encode(items)
    return None if found.problems else found


def check_choices(tape: Tape, overrides: Iterable[Override], privacy: Privacy | None) -> None:
    """Check that forced decisions are among the recorded candidates."""
    for each in overrides:
        if each.chosen is NOTHING or each.any_value:
            continue
        candidates = _candidates(tape, each.target)
        given = pack(each.chosen, privacy).data
        if candidates is None or _is_among(given, each.chosen, candidates, privacy):
            continue
        named = [shown(candidate) for candidate in candidates]
        near = difflib.get_close_matches(shown(given), named, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        more = f" and {len(named) - _NAMED} others" if len(named) > _NAMED else ""
        raise TapeError(
            f"{shown(given)} is no candidate of the decision {each.target!r}{meant}: there were"
            f" {', '.join(named[:_NAMED])}{more}; any_value=True (--choose-any) takes others too"
        )


def choice_like(tape: Tape, target: str, value: Any) -> Any:
    """Convert JSON data to the value that the decision function would return.

    An enum member is selected by its name or value, another object by its text in reports. If the
    function returned an object with a `chosen` field, return a copy of that object with the new
    choice.
    """
    candidates = _candidates(tape, target) or []
    found = next((each for each in candidates if same(each, value)), None)
    if found is None:
        found = next((each for each in candidates if _is_named(each, value)), None)
    if found is None:
        return value
    taken_first = next(each for each in tape.decisions if each.type == target)
    outcome = tape.data(taken_first.value)
    if any(same(each, outcome) for each in candidates):
        return codec.decode(found)
    return codec.decode(_with_chosen(outcome, found))


def _candidates(tape: Tape, target: str | int) -> list[Any] | None:
    """Return the encoded candidates of a decision type; None if any outcome is not among them."""
    found: list[Any] = []
    for decision in tape.decisions:
        if decision.type != target:
            continue
        candidates = _of(tape, decision)
        if candidates is None:
            return None
        found += [each for each in candidates if not any(same(each, known) for known in found)]
    return found or None


def _of(tape: Tape, decision: TapeDecision) -> list[Any] | None:
    if decision.among is None:
        return None
    try:
        candidates: list[Any] = tape.data(decision.among)
        outcome = tape.data(decision.value)
        value = codec.decode(outcome)
    except (MissingPayloadError, codec.UndecodableError):
        return None
    return candidates if _is_among(outcome, value, candidates, None) else None


def _is_among(data: Any, value: Any, candidates: list[Any], privacy: Privacy | None) -> bool:
    """Return whether a value, or its `chosen` field, is one of the candidates."""
    forms = [data]
    if (chosen := safe_access.attributes(value, ("chosen",)).get("chosen")) is not None:
        forms.append(pack(chosen, privacy).data)
    return any(same(form, each) for form in forms for each in candidates)


def _is_named(candidate: Any, value: Any) -> bool:
    """Return whether a plain value identifies an encoded object."""
    if not isinstance(candidate, dict) or codec.TAG not in candidate:
        return False
    if candidate[codec.TAG] == "enum" and (
        value == candidate.get("n") or same(value, candidate.get("v"))
    ):
        return True
    return isinstance(value, str) and value == shown(candidate)


def _with_chosen(outcome: Any, chosen: Any) -> Any:
    if not isinstance(outcome, dict):
        return chosen
    if codec.TAG not in outcome:
        return {**outcome, "chosen": chosen}
    inside = outcome.get("v")
    return {**outcome, "v": {**inside, "chosen": chosen}} if isinstance(inside, dict) else chosen
