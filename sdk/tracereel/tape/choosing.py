"""Candidates of recorded decisions, and validation of forced outcomes."""

import difflib
from collections.abc import Iterable
from typing import Any, Final

from tracereel._redact import safe_access
from tracereel._redact.event_redaction import Privacy
from tracereel.tape import codec
from tracereel.tape.differences import shown
from tracereel.tape.format import Tape, TapeDecision, TapeError
from tracereel.tape.overrides import NOTHING, Override
from tracereel.tape.payloads import MissingPayloadError, pack, same

MAX_CANDIDATES: Final = 1000
_NAMED: Final = 20
"""Candidates that an error message lists."""


def taken(candidates: object) -> codec.EncodedValue | None:
    """Encode candidates for a tape; None for none, too many, or any that cannot be encoded."""
    items = safe_access.items(candidates, MAX_CANDIDATES + 1)
    if not items or len(items) > MAX_CANDIDATES:
        return None
    found = codec.encode(items)
    return None if found.problems else found


def check(tape: "Tape", overrides: Iterable[Override], privacy: "Privacy | None") -> None:
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


def choice_like(tape: "Tape", target: str, value: Any) -> Any:
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


def _candidates(tape: "Tape", target: str | int) -> list[Any] | None:
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


def _of(tape: "Tape", decision: "TapeDecision") -> list[Any] | None:
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
