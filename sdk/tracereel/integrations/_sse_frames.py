"""Frames of Server-Sent Events out of whatever a stream gives: bytes, text, lines, or whole frames."""

import codecs
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from tracereel.providers.reading import get

MAX_FRAME_CHARS: Final = 16 * 2**20
"""Longest frame that is put together; a longer one is given up and counted."""
MAX_UNDECIDED: Final = 10_000
"""Items that are kept until it is known whether they are lines."""
MESSAGE: Final = "message"
"""What a frame without a name is called."""
_DONE: Final = "[DONE]"
_BOM: Final = "\ufeff"
_END: Final = "done"
_WHOLE: Final = re.compile(r"event: ?([^\r\n]*)\ndata: ?([^\r\n]*)\n\n").fullmatch
_decode: Final = msgspec.json.Decoder().decode
_HEAD: Final = "event: token\ndata: "
_HEAD_BYTES: Final = _HEAD.encode()


class _Token(msgspec.Struct, forbid_unknown_fields=True):
    """The data of nearly all frames."""

    text: str


_decode_token: Final = msgspec.json.Decoder(_Token).decode


def is_token(item: Any) -> bool:
    """Whether an item of a stream is one whole frame with a token in it, as most servers write it."""
    if type(item) is str:
        return item.startswith(_HEAD) and item.endswith("\n\n") and item.count("\n") == 3
    return (
        type(item) is bytes
        and item.startswith(_HEAD_BYTES)
        and item.endswith(b"\n\n")
        and item.count(b"\n") == 3
    )


def text_of_token(item: str | bytes) -> str | None:
    """The text in such a frame; null where there is more in it, or something else."""
    try:
        return _decode_token(item[len(_HEAD) : -2]).text
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class Frame(NamedTuple):
    """One frame: its name, and its data as text or, where the stream gives data, as data."""

    event: str
    data: Any

    def payload(self) -> Any:
        """The data decoded; null where it is no JSON."""
        if not isinstance(self.data, str):
            return self.data
        try:
            return _decode(self.data)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return None


class FrameReader:
    """Takes the items of a stream one by one, and gives the frames that are whole by then.

    Bytes and text may be cut anywhere. Lines without their ends, as `iter_lines` gives them, are
    known by an empty item that comes before any end of line.

    Args:
        lines: whether the items are such lines, where that is known.
    """

    def __init__(self, *, lines: bool | None = None) -> None:
        self._are_lines = lines
        self._undecided: list[str] = []
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._frames = _FrameText()

    @property
    def given_up(self) -> int:
        """Frames that were too long."""
        return self._frames.given_up

    def passes(self) -> bool:
        """Whether a whole frame may pass by unread now: nothing that came before is part of it."""
        if self._are_lines or self._undecided or self._bytes.getstate()[0]:
            return False
        self._are_lines = False
        return self._frames.passes()

    def read(self, item: Any) -> list[Frame]:
        """The frames that an item completes; none for what is no frame."""
        if isinstance(item, str):
            return self._take(item)
        if isinstance(item, (bytes, bytearray, memoryview)):
            text = self._bytes.decode(bytes(item))
            # Nothing yet of a character that is cut is not an empty line.
            return self._take(text) if text or not item else []
        return _frame_of(item)

    def _take(self, text: str) -> list[Frame]:
        if self._are_lines is None:
            self._undecided.append(text)
            if "\n" in text or "\r" in text:
                self._are_lines = False
            elif not text and len(self._undecided) > 1:
                self._are_lines = True
            elif len(self._undecided) < MAX_UNDECIDED:
                return []
            else:
                self._are_lines = False
            waiting, self._undecided = self._undecided, []
            text = ("\n" if self._are_lines else "").join(waiting)
        return self._frames.feed(f"{text}\n" if self._are_lines else text)


class _FrameText:
    """Frames out of text that is cut anywhere, as the specification dispatches them."""

    def __init__(self) -> None:
        self._line: list[str] = []
        self._event = ""
        self._data: list[str] = []
        self._size = 0
        self._is_too_long = False
        self._ended_with_return = False
        self._is_first = True
        self.given_up = 0

    def passes(self) -> bool:
        """Whether a frame has been ended, and none begun since."""
        self._is_first = self._ended_with_return = False
        return not (self._line or self._data or self._event or self._is_too_long)

    def feed(self, text: str) -> list[Frame]:
        """The frames that are whole now."""
        frames: list[Frame] = []
        if not text:
            return frames
        if not (self._line or self._data or self._event or self._is_too_long):
            whole_frame = _WHOLE(text)
            if whole_frame is not None and len(text) <= MAX_FRAME_CHARS:
                # As most servers write them, one at a time: no line has to be kept for later.
                self._is_first = self._ended_with_return = False
                frames.append(_named(*whole_frame.groups()))
                return frames
        if self._is_first:
            self._is_first = False
            text = text.removeprefix(_BOM)
        if self._ended_with_return:
            # A line feed right after a carriage return belongs to the same end of line.
            text = text.removeprefix("\n")
        self._ended_with_return = text.endswith("\r")
        *whole, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for part in whole:
            self._extend(part)
            self._end_line(frames)
        self._extend(rest)
        return frames

    def _extend(self, part: str) -> None:
        if not part:
            return
        self._size += len(part)
        if self._size > MAX_FRAME_CHARS:
            self._is_too_long = True
            self._data.clear()
            self._line = [":"]  # a comment: there was something in this line
        else:
            self._line.append(part)

    def _end_line(self, frames: list[Frame]) -> None:
        line = "".join(self._line)
        self._line.clear()
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "event":
                self._event = value
            return
        if self._is_too_long:
            self.given_up += 1
        elif self._data:
            frames.append(_named(self._event, "\n".join(self._data)))
        self._event = ""
        self._data.clear()
        self._size = 0
        self._is_too_long = False


def _named(event: str, data: Any) -> Frame:
    if not event and isinstance(data, str) and data.strip() == _DONE:
        return Frame(_END, "{}")
    return Frame(event or MESSAGE, data)


def _frame_of(item: Any) -> list[Frame]:
    """A frame that comes as an object: a mapping, a pair, or anything with a name and data."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return [Frame(item[0], item[1])]
    event = get(item, "event", "type")
    if not isinstance(event, str) or not event:
        return []
    data = get(item, "data")
    if data is None and isinstance(item, Mapping):
        data = {name: value for name, value in item.items() if name not in ("event", "type")}
    return [_named("" if event == MESSAGE else event, {} if data is None else data)]
