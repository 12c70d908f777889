"""Server-Sent Events out of a stream of bytes, as the specification dispatches them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tracereel.client.errors import UnexpectedAnswerError

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""No event the collector accepts is larger: a longer line is not one of its."""


@dataclass(frozen=True, slots=True)
class Message:
    """One block of a stream; one without data only says how far the stream is."""

    event: str
    data: str
    id: str


def messages(chunks: Iterable[bytes]) -> Iterator[Message]:
    """The blocks of a stream; what is not whole at its end is dropped, as browsers do."""
    data: list[str] = []
    event = last_id = ""
    for line in lines(chunks):
        if not line:
            if event or data or last_id:
                yield Message(event or "message", "\n".join(data), last_id)
            event, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif name == "id" and "\0" not in value:
            last_id = value


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines that end in CR, LF or both, however the bytes are cut."""
    parts: list[bytes] = []
    size = 0
    after_cr = False
    for chunk in filter(None, chunks):
        rest = chunk[1:] if after_cr and chunk.startswith(b"\n") else chunk
        after_cr = chunk.endswith(b"\r")
        *whole, rest = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            yield (b"".join(parts) + line).decode("utf-8", "replace")
            parts, size = [], 0
        if rest:
            parts.append(rest)
            size += len(rest)
            if size > MAX_LINE_BYTES:
                raise UnexpectedAnswerError(f"a line of more than {MAX_LINE_BYTES} bytes came")
