"""Incremental parser of Server-Sent Events (WHATWG HTML, section 9.2.6)."""

from typing import Final, NamedTuple

MAX_EVENT_BYTES: Final = 16 * 2**20
"""Longest event that is kept by default; longer ones are dropped and counted."""
MESSAGE: Final = "message"
"""Default event type."""
_BOM: Final = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS: Final = 9


class SseEvent(NamedTuple):
    """Dispatched event."""

    event: str
    data: bytes
    id: str
    """Last id of the stream when the event was dispatched."""


class SseParser:
    """Incremental splitter of bytes into events; `max_event_bytes` bounds its memory."""

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.last_event_id = ""
        """Id of the last complete event, with or without data."""
        self.retry_ms: int | None = None
        """Reconnection time that the server requested."""
        self.dropped = 0
        """Number of dropped events that were too long."""
        self._max_event_bytes = max_event_bytes
        self._line: list[bytes] = []
        self._event = b""
        self._id = ""
        self._data: list[bytes] = []
        self._size = 0
        self._drops_event = False
        self._after_cr = False
        self._is_first_line = True

    def feed(self, data: bytes) -> list[SseEvent]:
        """Return the events that these bytes complete."""
        events: list[SseEvent] = []
        if not data:
            return events
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]  # the second half of a CRLF
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data[-1:] == b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        elif data:
            self._after_cr = False
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._size += len(line)
            if self._line or self._size > self._max_event_bytes or self._is_first_line:
                line = self._end_line(line)
            if line[:6] == b"data: " and not self._drops_event:  # most lines
                self._data.append(line[6:])
            elif line:
                self._take_field(line)
            else:
                self._dispatch(events)
        if rest:
            self._size += len(rest)
            self._keep(rest)
        return events

    def _keep(self, part: bytes) -> None:
        """Keep the beginning of a line, unless the event is too long."""
        if self._size <= self._max_event_bytes:
            self._line.append(part)
            return
        if not self._drops_event:
            self._drops_event = True
            self.dropped += 1
            self._data.clear()
        self._line = [b":"]  # a comment, because an empty line would end the event

    def _end_line(self, part: bytes) -> bytes:
        if part:
            self._keep(part)
        line = b"".join(self._line)
        self._line.clear()
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        return line

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            if not self._drops_event:
                self._data.append(value)
        elif name == b"event":
            self._event = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.retry_ms = int(value)

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._drops_event:
            self._id = self.last_event_id
        self.last_event_id = self._id
        if self._data:
            name = self._event.decode("utf-8", "replace") if self._event else MESSAGE
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(SseEvent(name, data, self.last_event_id))
            self._data.clear()
        self._event = b""
        self._size = 0
        self._drops_event = False
