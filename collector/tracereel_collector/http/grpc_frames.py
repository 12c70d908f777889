"""Filter of HTTP/2 frames that forwards header blocks only after checking their size.

gRPC's server limits the header size of each frame, not of a request, and keeps some fifty bytes for
each of many tiny headers, all before a key can be checked. It also does not expose the size of a
message before all of it has arrived. The filter records that size by stream number and adds the
number as a header, so that the handler can look it up.
"""

import asyncio
from dataclasses import dataclass

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_BLOCK_BYTES = 16 * 1024
MAX_FIELDS = 100
MAX_FRAMES = 16
"""Most frames of a header block.

Each read parses the block again, and empty frames are cheap to send.
"""
STREAM_HEADER = "tracereel-stream"
HEAD_BYTES = 5
"""Prefix of a gRPC message: whether it is compressed, and its length."""
MAX_CALLS = 256
"""Calls of a connection that are kept; gRPC's server refuses some without calling the handler."""
_HEAD = 9
_DATA, _HEADERS, _RST_STREAM, _PUSH_PROMISE, _CONTINUATION = 0, 1, 3, 5, 9
_END_STREAM, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x4, 0x8, 0x20


class FrameError(Exception):
    """The bytes are not HTTP/2, or the headers exceed a limit."""


@dataclass(frozen=True, slots=True)
class MessageHead:
    """Prefix of a gRPC message: size on the wire, and whether it is compressed."""

    size: int
    is_packed: bool


class _GrpcCall:
    def __init__(self) -> None:
        self.came = b""
        self.waiter: asyncio.Future[None] | None = None

    @property
    def head(self) -> MessageHead | None:
        if len(self.came) < HEAD_BYTES:
            return None
        return MessageHead(int.from_bytes(self.came[1:HEAD_BYTES]), bool(self.came[0]))

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class MessageHeads:
    """Calls of one connection whose message prefix was not read yet."""

    def __init__(self) -> None:
        self._calls: dict[int, _GrpcCall] = {}
        self._latest = 0

    def begin(self, stream: int) -> None:
        """Record the start of a call; ignore trailers."""
        if stream <= self._latest:
            return
        self._latest = stream
        self._calls[stream] = _GrpcCall()
        if len(self._calls) > MAX_CALLS:
            self.end(next(iter(self._calls)))

    def is_missing(self, stream: int) -> bool:
        """Return whether the prefix of a call's message is incomplete."""
        call = self._calls.get(stream)
        return call is not None and len(call.came) < HEAD_BYTES

    def add(self, stream: int, part: bytes) -> None:
        """Add bytes of a call to its prefix."""
        call = self._calls[stream]
        call.came += part[: HEAD_BYTES - len(call.came)]
        if len(call.came) == HEAD_BYTES:
            call.wake()

    def end(self, stream: int) -> None:
        """Forget a call that was cancelled or has ended."""
        if (call := self._calls.pop(stream, None)) is not None:
            call.wake()

    def end_all(self) -> None:
        """Forget all calls of a closed connection."""
        for stream in list(self._calls):
            self.end(stream)

    async def wait_for(self, stream: int) -> MessageHead | None:
        """Wait for the prefix of a call's message; None if the call ends first."""
        call = self._calls.get(stream)
        if call is None:
            return None
        try:
            if call.head is None:
                call.waiter = asyncio.get_running_loop().create_future()
                await call.waiter
            return call.head
        finally:
            self._calls.pop(stream, None)


class HeaderFilter:
    """Filter of one connection; forwards complete header blocks with the stream number added."""

    def __init__(self) -> None:
        self.messages = MessageHeads()
        self._kept = b""
        self._payload_left = 0
        self._begun = False

    @property
    def is_holding(self) -> bool:
        """Whether bytes are held back until more arrive."""
        return bool(self._kept)

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that can be forwarded.

        Raises:
            FrameError: the connection must be closed.
        """
        if not self._kept and len(data) <= self._payload_left:
            self._payload_left -= len(data)
            return data
        data = self._kept + data
        position = self._payload_left
        self._payload_left = 0
        passed: list[bytes] = []
        begin = 0
        while position <= len(data):
            end = self._end_of_next(data, position)
            if end is None:
                self._kept = data[position:]
                return b"".join((*passed, data[begin:position]))
            if data[position + 3] == _HEADERS:
                passed += (data[begin:position], _with_stream(data[position:end]))
                begin = end
            position = end
        self._kept = b""
        self._payload_left = position - len(data)
        return b"".join((*passed, data[begin:])) if passed else data

    def _end_of_next(self, data: bytes, position: int) -> int | None:
        """Return the end of the next frame or block, possibly beyond the data; None if incomplete."""
        if not self._begun:
            came = data[position : position + len(PREFACE)]
            if not PREFACE.startswith(came):
                raise FrameError("no HTTP/2")
            self._begun = came == PREFACE
            return position + len(PREFACE) if self._begun else None
        if len(data) - position < _HEAD:
            return None
        kind = data[position + 3]
        if kind in (_PUSH_PROMISE, _CONTINUATION):
            raise FrameError("a frame that no client may begin with")
        if kind == _HEADERS:
            return self._end_of_block(data, position)
        if kind == _DATA and not self._looked_at(data, position):
            return None
        if kind == _RST_STREAM:
            self.messages.end(_stream(data, position))
        return position + _HEAD + int.from_bytes(data[position : position + 3])

    def _looked_at(self, data: bytes, position: int) -> bool:
        """Record the first bytes of a message; return False if more bytes are needed."""
        stream = _stream(data, position)
        if not self.messages.is_missing(stream):
            return True
        length, flags = int.from_bytes(data[position : position + 3]), data[position + 4]
        padded = 1 if flags & _PADDED else 0
        wanted = min(length, padded + HEAD_BYTES)
        came = data[position + _HEAD : position + _HEAD + wanted]
        if len(came) < wanted:
            return False
        if padded and (not came or came[0] >= length):
            raise FrameError("more padding than there is data")
        self.messages.add(stream, came[1 : length - came[0]] if padded else came)
        if flags & _END_STREAM and self.messages.is_missing(stream):
            self.messages.end(stream)
        return True

    def _end_of_block(self, data: bytes, position: int) -> int | None:
        fragments: list[bytes] = []
        begin, kind = position, _HEADERS
        while True:
            if len(data) - position < _HEAD:
                break
            length = int.from_bytes(data[position : position + 3])
            if data[position + 3] != kind:
                raise FrameError("a frame in the middle of headers")
            if position + _HEAD + length - begin > MAX_BLOCK_BYTES:
                raise FrameError(f"headers of more than {MAX_BLOCK_BYTES} bytes")
            if len(fragments) == MAX_FRAMES:
                raise FrameError(f"headers in more than {MAX_FRAMES} frames")
            if len(data) - position < _HEAD + length:
                break
            flags = data[position + 4]
            payload = data[position + _HEAD : position + _HEAD + length]
            fragments.append(_fragment(payload, flags) if kind == _HEADERS else payload)
            position += _HEAD + length
            kind = _CONTINUATION
            if flags & _END_HEADERS:
                if count_fields(b"".join(fragments)) > MAX_FIELDS:
                    raise FrameError(f"more than {MAX_FIELDS} headers")
                self._note_call(data, begin)
                return position
        return None

    def _note_call(self, data: bytes, position: int) -> None:
        stream = _stream(data, position)
        self.messages.begin(stream)
        if data[position + 4] & _END_STREAM and self.messages.is_missing(stream):
            self.messages.end(stream)


def _stream(data: bytes, position: int) -> int:
    """Return the stream number of a frame."""
    return int.from_bytes(data[position + 5 : position + _HEAD]) & 0x7FFFFFFF


def _with_stream(block: bytes) -> bytes:
    """Append the stream number to a header block, after all headers of the client."""
    last = position = 0
    while position < len(block):
        last = position
        position += _HEAD + int.from_bytes(block[position : position + 3])
    flags_at = last + 4
    name, value = STREAM_HEADER.encode(), str(_stream(block, 0)).encode()
    # HPACK literal without indexing: length and bytes of the name, then of the value.
    field = bytes([0, len(name)]) + name + bytes([len(value)]) + value
    more = len(field).to_bytes(3) + bytes([_CONTINUATION, _END_HEADERS]) + block[5:_HEAD] + field
    return (
        block[:flags_at] + bytes([block[flags_at] & ~_END_HEADERS]) + block[flags_at + 1 :] + more
    )


def _fragment(payload: bytes, flags: int) -> bytes:
    """Return the header fields of a HEADERS frame."""
    begin, end = 0, len(payload)
    if flags & _PADDED:
        if not payload:
            raise FrameError("no padding where some is announced")
        begin, end = 1, end - payload[0]
    if flags & _PRIORITY:
        begin += 5
    return payload[begin:end]


def count_fields(block: bytes) -> int:
    """Count the header fields of an HPACK block; raise FrameError if the block is truncated."""
    count = position = 0
    try:
        while position < len(block):
            first = block[position]
            if first & 0x80:  # indexed
                _, position = _integer(block, position, 7)
                count += 1
            elif first & 0xE0 == 0x20:  # table size update
                _, position = _integer(block, position, 5)
            else:
                name, position = _integer(block, position, 6 if first & 0x40 else 4)
                for _ in range(1 if name else 2):
                    length, position = _integer(block, position, 7)
                    position += length
                count += 1
    except IndexError as error:
        raise FrameError("headers that are cut off") from error
    if position > len(block):
        raise FrameError("headers that are cut off")
    return count


def _integer(block: bytes, position: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[position] & most
    position += 1
    if value < most:
        return value, position
    shift = 0
    while True:
        byte = block[position]
        position += 1
        value += (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position
        if shift > 28:
            raise FrameError("a number that is too large")
