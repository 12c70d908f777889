"""Server-Sent Events, from bytes cut anywhere to the JSON that the frames carry."""

from typing import Any, Final

import msgspec

DONE: Final = object()
"""What `data: [DONE]` stands for: the provider has sent everything."""
MAX_FRAME_BYTES: Final = 16 * 2**20
"""Longest frame that is put together; a longer one is given up as malformed."""


_decode: Final = msgspec.json.Decoder().decode


class SseDecoder:
    """Puts frames together and decodes their data.

    Event names and ids are left out: the providers repeat what matters in the data.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._is_too_long = False
        self._ended_with_return = False
        self._is_between = True
        """Whether everything that came has been ended: the next byte begins a frame."""

    def feed(self, data: bytes) -> list[Any]:
        """The frames that are complete now: decoded JSON, `DONE`, or null where it is no JSON."""
        return [decode_frame(found) for found in self.take(data)]

    def take(self, data: bytes) -> list[bytes | None]:
        """The data of the frames that are complete now; null in the place of one that is too long."""
        frames: list[bytes | None] = []
        if (
            self._is_between
            and data[-2:] == b"\n\n"
            and len(data) <= MAX_FRAME_BYTES
            and b"\r" not in data
        ):
            at = data.find(b"data: ")
            if (
                at == data.find(b"data:")
                and data.find(b"\n", at) == len(data) - 2
                and (at == 0 or data[at - 1 : at] == b"\n")
            ):
                # One frame of one line of data, perhaps after the event's name: nearly all are that.
                frames.append(data[at + 6 : -2])
                return frames
            # Whole frames, as most servers write them: no line has to be kept for later.
            for frame in data[:-2].split(b"\n\n"):
                # Nearly all are one line of data, most of them after one with the event's name.
                at = 0 if frame[:5] == b"data:" else frame.find(b"\ndata:") + 1
                if (at or frame[:5] == b"data:") and frame.find(b"\n", at) < 0:
                    start = at + 6 if frame[at + 5 : at + 6] == b" " else at + 5
                    frames.append(frame[start:])
                else:
                    _add_lines(frame, frames)
            return frames
        if self._ended_with_return and data:
            # The line ended with \r; a \n right after it belongs to the same end.
            self._ended_with_return = False
            if data[:1] == b"\n":
                data = data[1:]
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._ended_with_return = data.endswith(b"\r")
        for part in lines[:-1]:
            self._extend(part)
            self._end_line(frames)
        self._extend(lines[-1])
        self._is_between = not (
            self._line or self._data or self._is_too_long or self._ended_with_return
        )
        return frames

    def _extend(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= MAX_FRAME_BYTES:
            self._line += part
        elif part or self._line:
            self._is_too_long = True
            self._data.clear()
            self._line[:] = b":"  # a comment: there was something in this line

    def _end_line(self, frames: list[bytes | None]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif line == b"":
            if self._is_too_long:
                frames.append(None)
            elif self._data:
                frames.append(b"\n".join(self._data))
            self._data.clear()
            self._size = 0
            self._is_too_long = False


def _add_lines(frame: bytes, frames: list[bytes | None]) -> None:
    """Adds what a frame carries that has several lines of data, or none."""
    lines = frame.split(b"\n")
    parts = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    if parts:
        frames.append(b"\n".join(parts))


def decode_frame(data: bytes | None) -> Any:
    """What the data of a frame says: decoded JSON, `DONE`, or null where it is no JSON."""
    if data is None:
        return None
    if data[:1] != b"{" and data.strip() == b"[DONE]":
        return DONE
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
