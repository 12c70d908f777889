"""Conversion of Langfuse's traces, observations and scores to spans and scores."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

_HEX: Final = {16: re.compile(r"[0-9a-f]{32}"), 8: re.compile(r"[0-9a-f]{16}")}
_OF_TRACE: Final = {
    "langfuse.trace.name": "name",
    "session.id": "sessionId",
    "user.id": "userId",
    "langfuse.release": "release",
    "langfuse.trace.tags": "tags",
}
"""Attributes of every span, and the fields of its trace with their values."""
_OF_OBSERVATION: Final = {
    "langfuse.observation.input": "input",
    "langfuse.observation.output": "output",
    "langfuse.observation.metadata": "metadata",
    "langfuse.observation.level": "level",
    "langfuse.observation.status_message": "statusMessage",
    "langfuse.observation.model.parameters": "modelParameters",
    "langfuse.observation.prompt.name": "promptName",
    "langfuse.observation.prompt.version": "promptVersion",
    "langfuse.observation.completion_start_time": "completionStartTime",
    "langfuse.environment": "environment",
    "langfuse.version": "version",
}
MAX_TRACES: Final = 2_000_000
"""Traces whose names and sessions are kept while their observations are read."""


class LangfuseHistory:
    """Records of Langfuse; those of traces are looked at first, because observations need them."""

    around: Final[tuple[dict[str, Any], dict[str, Any]]] = (
        {"resource": {"attributes": []}},
        {"scope": {"name": "langfuse-sdk", "version": "import"}},
    )

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._traces: dict[bytes, dict[str, Any]] = {}
        self.left_out = 0

    def look_at(self, record: Any) -> None:
        """Keep what a trace says about its observations."""
        fields = _camel(record)
        if _is_trace(fields) and len(self._traces) < MAX_TRACES:
            self._traces[_id(fields["id"], 16)] = {
                name: fields[field]
                for name, field in _OF_TRACE.items()
                if fields.get(field) not in (None, "", [])
            }

    def converted(self, record: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the spans and the scores of a record."""
        fields = _camel(record)
        if _is_score(fields):
            return [], [_score(fields)]
        if _is_observation(fields):
            return list(self._spans([fields])), []
        if _is_trace(fields):
            observations = [_camel(each) for each in fields.get("observations") or []]
            within = [
                {"traceId": fields["id"], **each}
                for each in observations
                if isinstance(each, dict) and each
            ]
            scores = [_camel(each) for each in fields.get("scores") or []]
            found = [_score({"traceId": fields["id"], **each}) for each in scores if each]
            return list(self._spans(within)), found
        self.left_out += 1
        self._tell(
            "records that are no trace, observation or score of Langfuse were left out; expected"
            " an id with a timestamp, a traceId with a startTime, or a traceId with a value"
        )
        return [], []

    def _spans(self, observations: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for fields in observations:
            start = _nanoseconds(fields.get("startTime"))
            if start is None:
                self.left_out += 1
                self._tell("observations without a startTime were left out")
                continue
            trace = _id(fields["traceId"], 16)
            end = _nanoseconds(fields.get("endTime"))
            attributes = {**self._traces.get(trace, {}), **dict(_attributes(fields))}
            span = {
                "traceId": trace.hex(),
                "spanId": _id(fields["id"], 8).hex(),
                "name": str(fields.get("name") or fields.get("type") or "observation"),
                "kind": 1,
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(max(start, end or start)),
                "attributes": [
                    {"key": key, "value": {"stringValue": _text(value)}}
                    for key, value in attributes.items()
                ],
            }
            if fields.get("parentObservationId"):
                span["parentSpanId"] = _id(fields["parentObservationId"], 8).hex()
            if fields.get("level") == "ERROR":
                span["status"] = {"code": 2, "message": _text(fields.get("statusMessage") or "")}
            yield span


def _attributes(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "langfuse.observation.type", str(fields.get("type") or "span").lower()
    model = fields.get("model") or fields.get("providedModelName") or fields.get("internalModelId")
    if model:
        yield "langfuse.observation.model.name", model
    for name, field in _OF_OBSERVATION.items():
        if fields.get(field) not in (None, "", {}, []):
            yield name, fields[field]
    usage = fields.get("usageDetails") or _known_numbers(fields.get("usage"))
    if usage:
        yield "langfuse.observation.usage_details", usage
    cost = fields.get("costDetails") or _known_numbers(
        {"total": fields.get("totalCost") or fields.get("calculatedTotalCost")}
    )
    if cost:
        yield "langfuse.observation.cost_details", cost


def _known_numbers(fields: Any) -> dict[str, Any]:
    """Return the numbers of an object; older exports have text and null among them."""
    known = fields if isinstance(fields, dict) else {}
    return {key: value for key, value in known.items() if type(value) in (int, float) and value}


def _is_trace(fields: Mapping[str, Any]) -> bool:
    return bool(fields.get("id")) and "traceId" not in fields and "timestamp" in fields


def _is_observation(fields: Mapping[str, Any]) -> bool:
    return bool(fields.get("id") and fields.get("traceId")) and "startTime" in fields


def _is_score(fields: Mapping[str, Any]) -> bool:
    has_target = bool(fields.get("traceId") or fields.get("sessionId"))
    return has_target and "startTime" not in fields and bool({"value", "stringValue"} & {*fields})


def _score(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a score with ids as its spans have them, and with an id."""
    score = dict(fields)
    if fields.get("traceId"):
        score["traceId"] = _id(fields["traceId"], 16).hex()
    if fields.get("observationId"):
        score["observationId"] = _id(fields["observationId"], 8).hex()
    if fields.get("dataType") in {"CATEGORICAL", "TEXT"} and fields.get("stringValue") is not None:
        score["value"] = fields["stringValue"]
    if not fields.get("id"):
        text = json.dumps(score, sort_keys=True, default=str)
        score["id"] = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return score


def _camel(record: Any) -> dict[str, Any]:
    """Return the fields with names as the API has them; exports to blobs have others."""
    if not isinstance(record, dict):
        return {}
    return {re.sub(r"_([a-z])", lambda m: m[1].upper(), str(k)): v for k, v in record.items()}


def _id(value: Any, size: int) -> bytes:
    """Return an OpenTelemetry id: the same one, a UUID's digits, or a hash."""
    plain = str(value).replace("-", "").lower()
    if _HEX[size].fullmatch(plain) and int(plain, 16):
        return bytes.fromhex(plain)
    return hashlib.blake2b(str(value).encode("utf-8", "replace"), digest_size=size).digest()


def _nanoseconds(value: Any) -> int | None:
    """Return a time in ISO 8601, or in seconds or milliseconds, in nanoseconds since 1970."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 10**13:
        return int(value * (10**6 if value > 10**11 else 10**9))
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    past = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (past.days * 86_400 + past.seconds) * 10**9 + past.microseconds * 1_000


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
