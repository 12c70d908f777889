"""Bounds on what one OTLP record may carry: how many attributes, and how long a text or value is."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tracereel_collector.ingest.otlp_values import as_json

MANY_ATTRIBUTES = "attributes over the limit"
LONG_VALUE = "value cut to the limit"
"""What is mended, as counters and answers call it."""
DROPPED = "tracereel.dropped_attributes"
"""The attribute that says how many were left out."""
_CUT = "… [cut: {} bytes, sha256 {}]"
_ANY_VALUE, _KEY_VALUE = AnyValue.DESCRIPTOR.full_name, KeyValue.DESCRIPTOR.full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpLimits:
    """The most attributes of a resource, span, event, link, record or point, and bytes of a value."""

    attributes: int = 1_000
    value_bytes: int = 4 * 1024 * 1024


def drop_surplus(message: Message, most: int) -> int:
    """Leave out attributes beyond the limit, wherever there are any; how many."""
    dropped = 0
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.full_name == _ANY_VALUE:
            continue
        if field.message_type.full_name != _KEY_VALUE:
            dropped += sum(drop_surplus(each, most) for each in _each(value))
        elif len(value) > most:
            surplus = len(value) - most
            del value[most:]
            value.add(key=DROPPED).value.int_value = surplus
            dropped += surplus
    return dropped


def cut_long_values(message: Message, longest: int) -> int:
    """Cut texts and values above so many bytes; what is left says how long they were; how many."""
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
        for each in _each(value):
            # Looked into only where something can be too long: most of a large body is small.
            if each.ByteSize() <= longest:
                continue
            if field.message_type.full_name == _ANY_VALUE:
                text = each.string_value if each.HasField("string_value") else as_json(each)
                each.string_value = _shortened(text, longest)
                cut += 1
            else:
                cut += cut_long_values(each, longest)
    return cut


def _each(value: Any) -> Iterator[Any]:
    return iter((value,)) if isinstance(value, Message) else iter(value)


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest // 4:  # no character takes more than four bytes
        return text
    data = text.encode()
    if len(data) <= longest:
        return text
    start = data[:longest].decode("utf-8", "ignore")
    return start + _CUT.format(len(data), hashlib.sha256(data).hexdigest())
