"""OTLP requests of very many tiny messages, written as bytes because building them is costly."""

from tracereel_collector.ingest.otlp_schema import LOGS, METRICS, TRACES


def varint(number):
    """Encode a number as a protobuf varint."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, content):
    """Encode a length-delimited field: a message or a text."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def _inside(signal, *path, message=b""):
    """Return a builder of requests that repeat the last field of a path."""

    def make(count):
        *outer, last = path
        body = field(last, message) * count
        for number in reversed(outer):
            body = field(number, body)
        return signal, body

    return make


OTLP_BODIES = {
    "resources": _inside(TRACES, 1),
    "scopes": _inside(TRACES, 1, 2),
    "spans": _inside(TRACES, 1, 2, 2),
    "spans of a kind": _inside(TRACES, 1, 2, 2, message=b"\x30\x01"),
    "attributes": _inside(TRACES, 1, 2, 2, 9),
    "attributes with a value": _inside(TRACES, 1, 2, 2, 9, message=field(2, b"")),
    "span events": _inside(TRACES, 1, 2, 2, 11),
    "links": _inside(TRACES, 1, 2, 2, 13),
    "array values": _inside(TRACES, 1, 2, 2, 9, 2, 5, 1),
    "map values": _inside(TRACES, 1, 2, 2, 9, 2, 6, 1),
    "resource attributes": _inside(TRACES, 1, 1, 1),
    "log records": _inside(LOGS, 1, 2, 2),
    "metrics": _inside(METRICS, 1, 2, 2),
    "gauge points": _inside(METRICS, 1, 2, 2, 5, 1),
    "histogram points": _inside(METRICS, 1, 2, 2, 9, 1),
    "exponential points": _inside(METRICS, 1, 2, 2, 10, 1),
    "exemplars": _inside(METRICS, 1, 2, 2, 5, 1, 5),
    "quantiles": _inside(METRICS, 1, 2, 2, 11, 1, 6),
}
"""Builders by repeated element: each maps a count to the signal and the bytes."""


def nested_values(depth):
    """Return a span with very deeply nested values."""
    size, parts = 0, []
    for _ in range(depth):
        head = b"\x0a" + varint(size)  # ArrayValue.values
        parts.append(head)
        size += len(head)
        head = b"\x2a" + varint(size)  # AnyValue.array_value
        parts.append(head)
        size += len(head)
    body = b"".join(reversed(parts))
    for number in (2, 9, 2, 2, 1):
        body = field(number, body)
    return TRACES, body
