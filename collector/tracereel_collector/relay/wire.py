"""Encoding of relays in a request between members: for each a line of JSON, then the bytes."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tracereel_collector.errors import BadRequestError
from tracereel_collector.model import Body, EmitterRun, Kind, Receipt, Relay, RelayReceipt

SOURCE_HEADER: Final = "x-tracereel-relay-from"
"""Id of the queue whose outbox a request comes from."""


class _Head(msgspec.Struct, gc=False, kw_only=True):
    id: int
    kind: Kind
    tenant: str
    received: int
    records: int
    size: int
    checksum: int
    runs: tuple[tuple[str | None, int, int], ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    passed: str = ""


_DECODER: Final = msgspec.json.Decoder(_Head)
RECEIPTS: Final = msgspec.json.Decoder(list[RelayReceipt | None])
"""Decoder of the answer: one receipt for each relay, null for those taken before."""


def encode(relays: Iterable[Relay]) -> bytes:
    """Return the body of a request."""
    parts: list[bytes] = []
    for relay in relays:
        body = relay.body
        head = _Head(
            id=relay.id,
            kind=body.kind,
            tenant=body.tenant,
            received=body.received_unix_nano,
            records=body.records,
            size=len(body.data),
            checksum=zlib.crc32(body.data),
            runs=tuple((run.emitter_id, run.first, run.count) for run in body.runs),
            owners=body.owners,
            passed=relay.passed,
        )
        parts += (msgspec.json.encode(head), b"\n", body.data)
    return b"".join(parts)


def receipts_of(receipts: Iterable[Receipt | None]) -> bytes:
    """Return the body of an answer; None is a relay that was taken before."""
    return msgspec.json.encode(
        [
            receipt
            and RelayReceipt(
                appended=receipt.appended,
                duplicates=receipt.duplicates,
                refused=receipt.refused,
                first_sequence_number=receipt.first_sequence_number,
                body_id=receipt.body_id,
            )
            for receipt in receipts
        ]
    )


def decode(data: bytes) -> list[Relay]:
    """Return the relays of a request.

    Raises:
        BadRequestError: the bytes are not what `encode` returns.
    """
    try:
        return list(_decoded(data))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise BadRequestError(f"not a relay: {error}") from error


def _decoded(data: bytes) -> Iterator[Relay]:
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        head = _DECODER.decode(data[at:end])
        at = end + 1 + head.size
        content = data[end + 1 : at]
        if len(content) != head.size or zlib.crc32(content) != head.checksum:
            raise ValueError(f"the bytes of relay {head.id} are damaged")
        body = Body(
            kind=head.kind,
            tenant=head.tenant,
            received_unix_nano=head.received,
            data=content,
            records=head.records,
            runs=tuple(EmitterRun(*run) for run in head.runs),
            owners=head.owners,
        )
        yield Relay(id=head.id, body=body, passed=head.passed)
