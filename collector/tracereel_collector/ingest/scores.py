"""Validation of scores: one object or an array."""

import uuid
from typing import Annotated, Any, Final

import msgspec

from tracereel._redact.event_redaction import owner_key
from tracereel.events import TRACE_ID_PATTERN
from tracereel_collector.ingest.redaction import Redactor
from tracereel_collector.ingest.small_bodies import CheckedObjects, SmallBody

MAX_BYTES: Final = 4 * 1024 * 1024
MAX_SCORES: Final = 1_000
_BODY: Final = SmallBody(kind="score", id_field="id", max_bytes=MAX_BYTES, max_objects=MAX_SCORES)

_TRACE_ID: Final = TRACE_ID_PATTERN.removesuffix("$") + r"\Z"

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Short = Annotated[str, msgspec.Meta(max_length=200)]


class ScoreInput(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rating of a run, of one of its steps, or of a session."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    trace_id: Annotated[str, msgspec.Meta(pattern=_TRACE_ID)] | None = None
    session_id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
    id: Id | None = None
    span_id: Annotated[str, msgspec.Meta(max_length=128)] = ""
    execution_id: Annotated[str, msgspec.Meta(max_length=128)] = ""
    agent_name: Short = ""
    value: float | bool | Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    comment: Annotated[str, msgspec.Meta(max_length=20_000)] = ""
    source: Short = ""
    author: Short = ""


def check_scores(data: bytes, *, now_unix_nano: int, redactor: Redactor | None) -> CheckedObjects:
    """Split the scores of a body into accepted and rejected ones."""

    def accepted(value: Any) -> tuple[str, bytes]:
        score = msgspec.convert(value, ScoreInput, strict=True)
        _check_target(score)
        if score.value is None and not score.comment:
            raise msgspec.ValidationError(
                "Expected a value, or a comment for a note - at `$.value`"
            )
        score.id = score.id or f"scr_{uuid.uuid4().hex}"
        return score.id, _line(score, now_unix_nano, redactor)

    return _BODY.check(data, accepted)


def _check_target(score: ScoreInput) -> None:
    if (score.trace_id is None) == (score.session_id is None):
        raise msgspec.ValidationError(
            "Expected the `trace_id` of a run or the `session_id` of a session, not both"
            " - at `$.trace_id`"
        )
    if score.session_id is not None and (score.span_id or score.execution_id):
        raise msgspec.ValidationError(
            "Expected no step with the score of a session - at `$.span_id`"
        )


_OF_LANGFUSE: Final = {
    "id": "id",
    "traceId": "trace_id",
    "sessionId": "session_id",
    "observationId": "span_id",
    "name": "name",
    "value": "value",
    "comment": "comment",
}
"""Fields of a score in Langfuse's form, by ours; others (environment, config …) are not kept."""


def of_langfuse(data: bytes) -> bytes:
    """Return a body of scores in Langfuse's form as one in ours.

    Raises:
        BadRequestError: the body is neither an object nor an array.
        TooLargeError: it is too large or has too many scores.
    """
    return msgspec.json.encode([_from_langfuse(each) for each in _BODY.split(data)])


def _from_langfuse(score: Any) -> Any:
    if not isinstance(score, dict):
        return score
    found = {
        ours: score[name] for name, ours in _OF_LANGFUSE.items() if score.get(name) is not None
    }
    if "trace_id" in found:  # which names the session of its run
        found.pop("session_id", None)
    if score.get("dataType") == "BOOLEAN" and found.get("value") in (0, 1):
        found["value"] = bool(found["value"])
    return {"source": "langfuse", **found}


def _line(score: ScoreInput, now_unix_nano: int, redactor: Redactor | None) -> bytes:
    """Serialise a score for the store, with the value in the column of its type."""
    fields: dict[str, Any] = {
        **{name: getattr(score, name) for name in score.__struct_fields__ if name != "value"},
        "trace_id": score.trace_id or "",
        "session_id": score.session_id or "",
        # A score that is sent again replaces the earlier one by this time.
        "updated_unix_nano": now_unix_nano,
    }
    kind, value = value_type(score.value), score.value
    fields["value_type"] = kind
    if kind in ("numeric", "boolean"):
        fields["number"] = float(value or 0)
    elif kind == "categorical":
        fields["category"] = value
    if redactor is not None:
        redactor.event(fields)
    # Runs may name the session by its hash, scores by its id, and the other way round.
    fields["session_key"] = owner_key(score.session_id) if score.session_id else ""
    return msgspec.json.encode(fields)


def value_type(value: Any) -> str:
    """Return `numeric`, `boolean`, `categorical`, or `note` for a comment without value."""
    if value is None:
        return "note"
    if isinstance(value, bool):
        return "boolean"
    return "categorical" if isinstance(value, str) else "numeric"
