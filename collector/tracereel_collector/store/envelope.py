"""Encoding of raw bodies for an insert: a short header before each unchanged body."""

from collections.abc import Iterable

from tracereel_collector.model import QueuedBody


def rows_of_events(bodies: Iterable[QueuedBody]) -> bytes:
    """Encode bodies of JSON lines as RowBinary: tenant, first number, arrival time, body."""
    parts: list[bytes] = []
    for body in bodies:
        tenant = body.tenant.encode()
        parts += (
            _varint(len(tenant)),
            tenant,
            body.first_sequence_number.to_bytes(8, "little"),
            body.received_unix_nano.to_bytes(8, "little"),
            _varint(len(body.data)),
            body.data,
        )
    return b"".join(parts)


def messages_of_requests(bodies: Iterable[QueuedBody]) -> bytes:
    """Encode OTLP requests as length-delimited `Body` messages for the `otlp_*_in` tables."""
    parts: list[bytes] = []
    for body in bodies:
        tenant = body.tenant.encode()
        head = (
            b"\x0a"
            + _varint(len(tenant))
            + tenant
            + b"\x10"
            + _varint(body.first_sequence_number)
            + b"\x18"
            + _varint(body.received_unix_nano)
            + b"\x22"
            + _varint(len(body.data))
        )
        parts += (_varint(len(head) + len(body.data)), head, body.data)
    return b"".join(parts)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
