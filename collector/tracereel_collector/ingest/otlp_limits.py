"""Limits of OTLP records: number of attributes and length of values."""

import hashlib
from dataclasses import dataclass

from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tracereel_collector.ingest.objects import MAX_OBJECTS
from tracereel_collector.ingest.otlp_values import as_json, messages_in

MANY_ATTRIBUTES = "attributes over the limit"
LONG_VALUE = "value cut to the limit"
"""Types of changes, as named in metrics and responses."""
DROPPED = "tracereel.dropped_attributes"
"""Attribute with the number of dropped attributes."""
_CUT = "… [cut: {} bytes, sha256 {}]"
_ANY_VALUE, _KEY_VALUE = AnyValue.DESCRIPTOR.full_name, KeyValue.DESCRIPTOR.full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpLimits:
    """Most attributes of a resource, span, event, link, record or point, and bytes of a value.

    `objects` limits the protobuf messages or JSON values of a request.
    """

    attributes: int = 1_000
    value_bytes: int = 4 * 1024 * 1024
    objects: int = MAX_OBJECTS


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
