"""Event streams (live tail, replay) that reconnect after the last event."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

from tracereel._runtime.sse_parser import SseParser
from tracereel.client.errors import (
    ClientError,
    CollectorUnavailableError,
    ConnectionLostError,
    UnexpectedAnswerError,
)
from tracereel.client.models import Step
from tracereel.client.transport import ResponseStream

FIRST_PAUSE: Final = 0.5
LAST_PAUSE: Final = 30.0
TRIES: Final = 10
"""Maximum number of consecutive connections without a byte of the stream before the error is raised."""
MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an event, as in the collector."""
OPEN = Callable[[str | None], ResponseStream]


class ServerSentEvent(NamedTuple):
    """One server-sent event, as text."""

    event: str
    data: str
    id: str


class EventStream:
    """Iterator over steps that reconnects when the connection breaks.

    Close it when done, or use it in a `with` block. It can be closed from any thread.
    """

    def __init__(
        self,
        open_stream: OPEN,
        *,
        last_event_id: str | None = None,
        reconnect: bool = True,
        on_notice: Callable[[ServerSentEvent], None] | None = None,
    ) -> None:
        self.last_event_id = last_event_id
        """Id of the last event; pass it to a new stream to resume."""
        self.lagged = 0
        """Number of times the reader was too slow and the stream was reopened."""
        self.gaps = 0
        """Number of times the collector reported that events may be missing."""
        self.reconnects = 0
        self.ended_with: Mapping[str, Any] = {}
        """Final message: the summary of a replay, or the reason why a tail ended."""
        self._open_stream = open_stream
        self._reconnect = reconnect
        self._on_notice = on_notice
        self._stream: ResponseStream | None = None
        self._closed = threading.Event()
        self._over = False
        self._was_open = False
        self._first_pause = FIRST_PAUSE
        self._failures = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration; safe to call again, from any thread."""
        self._closed.set()
        if self._stream is not None:
            self._stream.close()

    def __iter__(self) -> Iterator[Step]:
        """Yield steps until the stream ends or is closed.

        Raises:
            ClientError: the stream cannot be opened or reopened.
        """
        self._failures = 0
        while not self._closed.is_set() and not self._over:
            try:
                self._stream = self._open_stream(self.last_event_id)
                self._was_open = True
                if self._closed.is_set():  # closed while it was opened
                    self._stream.close()
                    return
                yield from self._steps(self._stream)
            except ClientError as error:
                if self._closed.is_set():
                    return
                self._failures += 1
                if not (self._reconnect and error.retryable) or self._failures >= TRIES:
                    raise
                if not self._was_open and _is_unreachable(error):
                    raise  # probably a wrong address, or a collector that was never started
                self._pause(error)
                self.reconnects += 1
            finally:
                if self._stream is not None:
                    self._stream.close()

    def _steps(self, stream: ResponseStream) -> Iterator[Step]:
        for message in self._messages(stream):
            if message.event == "end":
                self.ended_with = _document(message)
                self._notice(message)
                if self._reconnect and self.ended_with.get("retry"):
                    raise ConnectionLostError("the collector ended the stream; it will be back")
                self._over = True
                return
            if message.event in ("lagged", "gap", "cut"):
                self.lagged += message.event == "lagged"
                self.gaps += message.event == "gap"
                self._notice(message)
            elif message.data:
                yield step_of(message)
        if not self._over and not self._closed.is_set():
            raise ConnectionLostError("the stream ended before it was over")

    def _messages(self, stream: ResponseStream) -> Iterator[ServerSentEvent]:
        parser = SseParser(max_event_bytes=MAX_EVENT_BYTES)
        for chunk in stream.chunks():
            # Not only a step: a quiet tail has its opening alone until its connection is cut.
            self._failures = 0
            for event in parser.feed(chunk):
                self.last_event_id = event.id or self.last_event_id
                yield ServerSentEvent(event.event, event.data.decode("utf-8", "replace"), event.id)
            self.last_event_id = parser.last_event_id or self.last_event_id
            if parser.retry_ms is not None:
                self._first_pause = min(max(FIRST_PAUSE, parser.retry_ms / 1000), LAST_PAUSE)
            if parser.dropped:
                raise UnexpectedAnswerError(f"an event of more than {MAX_EVENT_BYTES} bytes came")

    def _notice(self, message: ServerSentEvent) -> None:
        if self._on_notice is not None:
            self._on_notice(message)

    def _pause(self, error: ClientError) -> None:
        pause = min(LAST_PAUSE, self._first_pause * 2 ** (self._failures - 1))
        if isinstance(error, CollectorUnavailableError) and error.retry_after is not None:
            pause = max(pause, min(error.retry_after, LAST_PAUSE))
        self._closed.wait(pause)


def _is_unreachable(error: ClientError) -> bool:
    """Return whether no response came; a starting or busy collector sends `Retry-After`."""
    return isinstance(error, CollectorUnavailableError) and error.retry_after is None


def step_of(message: ServerSentEvent) -> Step:
    """Parse a message of a stream as a step."""
    try:
        return Step.of(json.loads(message.data))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UnexpectedAnswerError(
            'the stream sent something else than {"time", "event", "details"}'
        ) from error


def _document(message: ServerSentEvent) -> Mapping[str, Any]:
    try:
        document = json.loads(message.data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
