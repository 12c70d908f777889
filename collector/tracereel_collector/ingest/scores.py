"""Validation of scores: one object or an array."""

import uuid
from typing import Annotated, Any, Final

import msgspec

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
    """Rating of a run or of one of its steps."""

    trace_id: Annotated[str, msgspec.Meta(pattern=_TRACE_ID)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
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
        if score.value is None and not score.comment:
            raise msgspec.ValidationError(
                "Expected a value, or a comment for a note - at `$.value`"
            )
        score.id = score.id or f"scr_{uuid.uuid4().hex}"
        return score.id, _line(score, now_unix_nano, redactor)

    return _BODY.check(data, accepted)


def _line(score: ScoreInput, now_unix_nano: int, redactor: Redactor | None) -> bytes:
    """Serialise a score for the store, with the value in the column of its type."""
    fields: dict[str, Any] = {
        **{name: getattr(score, name) for name in score.__struct_fields__ if name != "value"},
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
    return msgspec.json.encode(fields)


def value_type(value: Any) -> str:
    """Return `numeric`, `boolean`, `categorical`, or `note` for a comment without value."""
    if value is None:
        return "note"
    if isinstance(value, bool):
        return "boolean"
    return "categorical" if isinstance(value, str) else "numeric"
