"""Corrections of OTLP requests that cannot be stored unchanged, and their limits; rare and slow."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tracereel_collector.errors import BadRequestError
from tracereel_collector.ingest.objects import MAX_OBJECTS
from tracereel_collector.ingest.otlp_schema import Signal
from tracereel_collector.ingest.otlp_values import as_json, is_deeper, messages_in

MAX_UNIX_NANO = 2**63 - 1
"""Latest time that the store can represent, in the year 2262."""
ORIGINAL = "tracereel.original_{}"
"""Attribute with the original value of a time that the store clamps."""

BAD_TEXT = "text that is not UTF-8"
BAD_TIME = "time out of range"
DEEP_VALUE = "deep value as JSON text"
ZERO_PARENT = "parent id of zeros"
NO_EVENT = "event kept as a log record"
MANY_ATTRIBUTES = "attributes over the limit"
LONG_VALUE = "value cut to the limit"
"""Types of changes, as named in metrics and responses."""
DROPPED = "tracereel.dropped_attributes"
"""Attribute with the number of dropped attributes."""

_CUT = "… [cut: {} bytes, sha256 {}]"
_IDS = (("trace_id", 16), ("span_id", 8))
_ANY_VALUE, _KEY_VALUE = AnyValue.DESCRIPTOR.full_name, KeyValue.DESCRIPTOR.full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpLimits:
    """Most attributes of a resource, span, event, link, record or point, and bytes of a value.

    `objects` limits the protobuf messages or JSON values of a request.
    """

    attributes: int = 1_000
    value_bytes: int = 4 * 1024 * 1024
    objects: int = MAX_OBJECTS


def read_with_bad_text(signal: Signal, data: bytes) -> tuple[Any, int]:
    """Decode a request with invalid UTF-8 as U+FFFD; also return the number of changed strings."""
    try:
        lenient = signal.lenient.FromString(data)
    except DecodeError as error:
        raise BadRequestError(
            f"the body is not an OTLP {signal.request.DESCRIPTOR.name} in protobuf: {error}"
        ) from error
    mended = _mend_text(lenient, signal.request.DESCRIPTOR)
    return signal.request.FromString(lenient.SerializeToString()), mended


def _mend_text(message: Message, official: Any) -> int:
    """Correct the fields that are strings in the official message and bytes in this one."""
    mended = 0
    for field, value in message.ListFields():
        meant = official.fields_by_number[field.number]
        if meant.message_type is not None:
            for each in messages_in(value):
                mended += _mend_text(each, meant.message_type)
        elif meant.type == meant.TYPE_STRING and isinstance(value, bytes):
            text = value.decode("utf-8", "replace").encode()
            if text != value:
                mended += 1
                setattr(message, field.name, text)
        elif meant.type == meant.TYPE_STRING:
            texts = [each.decode("utf-8", "replace").encode() for each in value]
            mended += sum(new != old for new, old in zip(texts, value, strict=True))
            value[:] = texts
    return mended


def flatten_deep_values(message: Message, bounded: Any = None) -> int:
    """Replace values nested deeper than the store reads by JSON text; return their number.

    `bounded` is the same message decoded by the bounded classes; its parts without deep values are
    skipped.
    """
    replaced = 0
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        others = repeat(None) if bounded is None else messages_in(getattr(bounded, field.name))
        for each, other in zip(messages_in(value), others, strict=False):
            if other is not None and other.IsInitialized():
                continue
            if field.message_type.full_name != _ANY_VALUE:
                replaced += flatten_deep_values(each, other)
            elif is_deeper(each):
                each.string_value = as_json(each)
                replaced += 1
    return replaced


def why_refused(span: Any) -> str | None:
    """Return why a span is refused: OTLP requires valid ids."""
    for name, length in _IDS:
        given = getattr(span, name)
        if len(given) != length or not any(given):
            return f"{name}: expected {length} bytes that are not all zero"
    return None


def keep_only(records: Any, kept: list[Any]) -> None:
    """Remove all records of a list but some of them."""
    if len(kept) < len(records):
        # Serialised, because they belong to the list that is cleared.
        data = [record.SerializeToString() for record in kept]
        del records[:]
        for each in data:
            records.add().ParseFromString(each)


def refuse_spans(request: Any) -> Counter[str]:
    """Remove invalid spans; return their number by reason."""
    refused: Counter[str] = Counter()
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            reasons = [why_refused(span) for span in scope.spans]
            refused.update(reason for reason in reasons if reason is not None)
            pairs = zip(scope.spans, reasons, strict=True)
            keep_only(scope.spans, [span for span, reason in pairs if reason is None])
    return refused


def clear_zero_parents(request: Any) -> int:
    """Clear parent ids of zeros, which mean no parent; return their number."""
    cleared = 0
    for span in _spans(request):
        if span.parent_span_id and not any(span.parent_span_id):
            span.ClearField("parent_span_id")
            cleared += 1
    return cleared


def keep_original_times(request: Any) -> int:
    """Copy times that the store clamps to attributes; return their number."""
    noted = 0
    for span in _spans(request):
        noted += _note(span, "start_time_unix_nano") + _note(span, "end_time_unix_nano")
        noted += sum(_note(event, "time_unix_nano") for event in span.events)
    return noted


def _spans(request: Any) -> Iterator[Any]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def _note(message: Any, field: str) -> int:
    given = getattr(message, field)
    if given <= MAX_UNIX_NANO:
        return 0
    message.attributes.add(key=ORIGINAL.format(field)).value.string_value = str(given)
    return 1


def drop_surplus(message: Message, most: int) -> int:
    """Drop attributes beyond the limit in all messages; return their number."""
    dropped = 0
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.full_name == _ANY_VALUE:
            continue
        if field.message_type.full_name != _KEY_VALUE:
            dropped += sum(drop_surplus(each, most) for each in messages_in(value))
        elif len(value) > most:
            surplus = len(value) - most
            del value[most:]
            value.add(key=DROPPED).value.int_value = surplus
            dropped += surplus
    return dropped


def cut_long_values(message: Message, longest: int) -> int:
    """Truncate texts and values above a size; return their number.

    The truncated text ends with the original size and digest.
    """
    cut = 0
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            texts = value if not isinstance(value, str) else (value,)
            shorter = [_shortened(text, longest) for text in texts]
            if shorter != list(texts):
                cut += sum(new != old for new, old in zip(shorter, texts, strict=True))
                if isinstance(value, str):
                    setattr(message, field.name, shorter[0])
                else:
                    value[:] = shorter
        if field.message_type is None:
            continue
        for each in messages_in(value):
            # Descend only where a value can be too long: most parts of a large body are small.
            if each.ByteSize() <= longest:
                continue
            if field.message_type.full_name == _ANY_VALUE:
                text = each.string_value if each.HasField("string_value") else as_json(each)
                each.string_value = _shortened(text, longest)
                cut += 1
            else:
                cut += cut_long_values(each, longest)
    return cut


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest // 4:  # a character has at most four bytes
        return text
    data = text.encode()
    if len(data) <= longest:
        return text
    start = data[:longest].decode("utf-8", "ignore")
    return start + _CUT.format(len(data), hashlib.sha256(data).hexdigest())
