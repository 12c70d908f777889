"""Parser of Server-Sent Events from bytes, text, lines or frame objects."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from tracereel._runtime.sse_parser import MESSAGE, SseParser
from tracereel.providers.reading import get

MAX_UNDECIDED: Final = 10_000
"""Items that are buffered until it is known whether they are lines."""
_DONE: Final = "[DONE]"
_END: Final = "done"
_decode: Final = msgspec.json.Decoder().decode


class Frame(NamedTuple):
    """One frame: its name, and its data as text or as an object."""

    event: str
    data: Any

    def payload(self) -> Any:
        """Return the decoded data, or `None` if it is not JSON."""
        if not isinstance(self.data, str):
            return self.data
        try:
            return _decode(self.data)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return None


class FrameReader:
    """Reads the items of a stream and returns the frames they complete.

    Bytes and text may be split anywhere. Lines without line ends, as from `iter_lines`, are
    detected by an empty item before any line end.

    Args:
        lines: whether the items are such lines, if known.
    """

    def __init__(self, *, lines: bool | None = None) -> None:
        self._are_lines = lines
        self._undecided: list[bytes] = []
        self._parser = SseParser()

    @property
    def given_up(self) -> int:
        """Number of frames dropped because they were too long."""
        return self._parser.dropped

    def read(self, item: Any) -> list[Frame]:
        """Return the frames that an item completes; items that are not frames are ignored."""
        if isinstance(item, str):
            return self._take(item.encode("utf-8", "replace"))
        if isinstance(item, (bytes, bytearray, memoryview)):
            return self._take(bytes(item))
        return _frame_of(item)

    def _take(self, data: bytes) -> list[Frame]:
        if self._are_lines is None:
            self._undecided.append(data)
            if b"\n" in data or b"\r" in data:
                self._are_lines = False
            elif not data and len(self._undecided) > 1:
                self._are_lines = True
            elif len(self._undecided) < MAX_UNDECIDED:
                return []
            else:
                self._are_lines = False
            waiting, self._undecided = self._undecided, []
            data = (b"\n" if self._are_lines else b"").join(waiting)
        events = self._parser.feed(data + b"\n" if self._are_lines else data)
        return [_named(each.event, each.data.decode("utf-8", "replace")) for each in events]


def _named(event: str, data: Any) -> Frame:
    if event == MESSAGE and isinstance(data, str) and data.strip() == _DONE:
        return Frame(_END, "{}")
    return Frame(event, data)


def _frame_of(item: Any) -> list[Frame]:
    """Return the frame of a mapping, a pair, or an object with name and data."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return [Frame(item[0], item[1])]
    event = get(item, "event", "type")
    if not isinstance(event, str) or not event:
        return []
    data = get(item, "data")
    if data is None and isinstance(item, Mapping):
        data = {name: value for name, value in item.items() if name not in ("event", "type")}
    return [_named(event, {} if data is None else data)]
