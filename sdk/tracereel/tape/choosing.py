"""Which outcomes a decision could have had when it was recorded, and whether a forced one is among them."""

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tracereel import _objects
from tracereel.tape import codec
from tracereel.tape.differences import shown
from tracereel.tape.overrides import NOTHING, Override
from tracereel.tape.payloads import MissingPayloadError, Taken, pack, same, take

if TYPE_CHECKING:
    from tracereel._privacy import Privacy
    from tracereel.tape.format import Decision, Tape

MAX_CANDIDATES: Final = 1000
_NAMED: Final = 20
"""So many candidates are named where none of them was meant."""


def taken(candidates: object) -> Taken | None:
    """Candidates as they go on a tape; null if there are none, too many, or some that cannot be kept."""
    items = _objects.items(candidates, MAX_CANDIDATES + 1)
    if not items or len(items) > MAX_CANDIDATES:
        return None
    found = take(items)
    return None if isinstance(found, codec.Encoded) and found.problems else found


def check(tape: "Tape", overrides: Iterable[Override], privacy: "Privacy | None") -> None:
    """See to it that decisions are forced to nothing that they could not have come out as.

    Raises:
        TapeError: a value is none of the candidates that were recorded.
    """
    from tracereel.tape.format import TapeError

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


def choice_like(tape: "Tape", target: str, value: Any) -> Any:
    """What a decision function gives that chooses this, of JSON data.

    An enum is named by its name or value, another object as reports write it; where the function gave an
    object that has its choice as `chosen`, that object with another one.
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


def _candidates(tape: "Tape", target: str | int) -> list[Any] | None:
    """The data of what decisions of a type could have come out as; null if that is not known.

    Where what came out is itself none of its candidates, they say nothing of what the function gives.
    """
    found: list[Any] = []
    for decision in tape.decisions:
        if decision.type != target:
            continue
        candidates = _of(tape, decision)
        if candidates is None:
            return None
        found += [each for each in candidates if not any(same(each, known) for known in found)]
    return found or None


def _of(tape: "Tape", decision: "Decision") -> list[Any] | None:
    if decision.among is None:
        return None
    try:
        candidates: list[Any] = tape.data(decision.among)
        outcome = tape.data(decision.value)
        value = codec.decode(outcome)
    except (MissingPayloadError, codec.UndecodableError):
        return None
    return candidates if _is_among(outcome, value, candidates, None) else None


def _is_among(data: Any, value: Any, candidates: list[Any], privacy: "Privacy | None") -> bool:
    """Whether a value is one of the candidates, or has one of them as `chosen`."""
    forms = [data]
    if (chosen := _objects.attributes(value, ("chosen",)).get("chosen")) is not None:
        forms.append(pack(chosen, privacy).data)
    return any(same(form, each) for form in forms for each in candidates)


def _is_named(candidate: Any, value: Any) -> bool:
    """Whether a text, or another plain value, says which object is meant."""
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
