"""Decisions that a model answers with probabilities, as decision records.

OpenAI lists questions and answers in the same order; Google names both.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tracereel import semconv
from tracereel._redact import values
from tracereel._runtime.clock import sortable_id
from tracereel.providers.reading import as_data, get, items, mapping, text

MAX_DECISIONS: Final = 1_000
"""Decision records of one response."""


class AnsweredQuestion(NamedTuple):
    """One question of a request and its answer."""

    name: str
    question: dict[str, Any]
    answer: dict[str, Any]


class RatedOptions(NamedTuple):
    """Options with their probabilities, and the chosen one."""

    candidates: list[dict[str, Any]]
    chosen: Any
    confidence: float | None


def decision_events(
    body: Mapping[str, Any], response: Any, *, captures: bool, duration_ms: int
) -> list[dict[str, Any]]:
    """Return the fields of one decision record per answered question."""
    found: list[dict[str, Any]] = []
    for each in _pairs(body, mapping(response)):
        if len(found) == MAX_DECISIONS:
            break
        verdict = _verdict(each.answer)
        output = {name: value for name, value in each.answer.items() if name != "probabilities"}
        found.append(
            {
                "event_type": semconv.DECISION_RECORDED,
                "agent_name": None,
                "decision_id": sortable_id("dec"),
                "decision_type": values.label(each.name) or "question",
                "decision_category": values.label(each.question.get("type"))
                or values.label(each.answer.get("type")),
                "confidence": values.ratio(verdict.confidence),
                "input_data": values.plain_dict(each.question) if captures else None,
                "output_data": values.plain_dict(output) if captures else None,
                "decision_duration_ms": duration_ms,
                "was_cached": False,
                "candidates": values.plain(verdict.candidates) if captures else None,
                "candidate_scores": [each.get("score") for each in verdict.candidates],
                "chosen": values.plain(verdict.chosen) if captures else None,
            }
        )
    return found


def answers_of(response: dict[str, Any]) -> list[Any]:
    """Return the answers of a response as messages."""
    answers = response.get("answers")
    return items(answers) or [answers for _ in range(bool(answers))]


def _pairs(body: Mapping[str, Any], response: dict[str, Any]) -> Iterator[AnsweredQuestion]:
    questions, answers = as_data(body.get("questions")), response.get("answers")
    if isinstance(answers, dict):
        for name, answer in answers.items():
            question = mapping(mapping(questions).get(name))
            yield AnsweredQuestion(name, question, mapping(answer))
        return
    for number, answer in enumerate(items(answers)):
        asked = items(questions)
        question = mapping(asked[number]) if number < len(asked) else {}
        name = text(get(answer, "name")) or text(question.get("name")) or f"question_{number + 1}"
        yield AnsweredQuestion(name, question, mapping(answer))


def _verdict(answer: dict[str, Any]) -> RatedOptions:
    yes = values.real(get(answer, "probability", "noul"))
    if yes is not None:
        candidates = [{"value": True, "score": yes}, {"value": False, "score": 1 - yes}]
        return RatedOptions(candidates, yes >= 0.5, max(yes, 1 - yes))
    candidates = _candidates(answer)
    chosen = answer.get("choice")
    if chosen is None and candidates and answer.get("type") == "score":
        # The score is an expected value; the choice is the most likely level.
        chosen = max(candidates, key=lambda each: each.get("score", 0.0)).get("value")
    return RatedOptions(candidates, chosen, values.real(answer.get("confidence")))


def _candidates(answer: dict[str, Any]) -> list[dict[str, Any]]:
    given, legend = answer.get("probabilities"), mapping(answer.get("legend"))
    if isinstance(given, dict):
        found = [
            {"value": value, "label": legend.get(value), "score": values.real(score)}
            for value, score in given.items()
        ]
    else:
        found = [
            {
                "value": get(each, "value"),
                "label": get(each, "label"),
                "score": values.real(get(each, "probability")),
            }
            for each in items(given)
        ]
    return [{key: part for key, part in each.items() if part is not None} for each in found]
