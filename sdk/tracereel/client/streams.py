"""Streams that go on: the live tail and a replay as it happened, each behind the last event seen."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

from tracereel.client.errors import (
    ClientError,
    CollectorUnavailableError,
    ConnectionLostError,
    UnexpectedAnswerError,
)
from tracereel.client.models import Step
from tracereel.client.sse import Message, messages
from tracereel.client.transport import Stream

FIRST_PAUSE: Final = 0.5
LAST_PAUSE: Final = 30.0
TRIES: Final = 10
"""How often in a row a stream is opened in vain before its error is passed on."""
OPEN = Callable[[str | None], Stream]


class EventStream:
    """Steps as they come; opens its connection again when it breaks off.

    Iterate over it, and close it (or use it in a `with` block) when done, from whichever thread.
    """

    def __init__(
        self,
        open_stream: OPEN,
        *,
        last_event_id: str | None = None,
        reconnect: bool = True,
        on_notice: Callable[[Message], None] | None = None,
    ) -> None:
        self.last_event_id = last_event_id
        """How far the stream is: give it to a later one to go on from there."""
        self.lagged = 0
        """How often this reader was too slow and had to open its stream again."""
        self.gaps = 0
        """How often the collector said that something may not have been shown."""
        self.reconnects = 0
        self.ended_with: Mapping[str, Any] = {}
        """The stream's last word: of a replay its summary, of a tail why it ended."""
        self._open_stream = open_stream
        self._reconnect = reconnect
        self._on_notice = on_notice
        self._stream: Stream | None = None
        self._closed = threading.Event()
        self._over = False
        self._was_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration; safe to call twice, from any thread."""
        self._closed.set()
        if self._stream is not None:
            self._stream.close()

    def __iter__(self) -> Iterator[Step]:
        """Every step, until the stream is over or closed.

        Raises:
            ClientError: it cannot be opened (any more).
        """
        failures = 0
        while not self._closed.is_set() and not self._over:
            try:
                self._stream = self._open_stream(self.last_event_id)
                self._was_open = True
                if self._closed.is_set():  # closed while it was being opened
                    self._stream.close()
                    return
                for step in self._steps(self._stream):
                    failures = 0
                    yield step
            except ClientError as error:
                if self._closed.is_set():
                    return
                failures += 1
                if not (self._reconnect and error.retryable) or failures >= TRIES:
                    raise
                if not self._was_open and _nobody_is_there(error):
                    raise  # most likely a wrong address, or a collector that was never started
                self._pause(error, failures)
                self.reconnects += 1
            finally:
                if self._stream is not None:
                    self._stream.close()

    def _steps(self, stream: Stream) -> Iterator[Step]:
        for message in messages(stream.chunks()):
            if message.id:
                self.last_event_id = message.id
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

    def _notice(self, message: Message) -> None:
        if self._on_notice is not None:
            self._on_notice(message)

    def _pause(self, error: ClientError, failures: int) -> None:
        pause = min(LAST_PAUSE, FIRST_PAUSE * 2 ** (failures - 1))
        if isinstance(error, CollectorUnavailableError) and error.retry_after is not None:
            pause = max(pause, min(error.retry_after, LAST_PAUSE))
        self._closed.wait(pause)


def _nobody_is_there(error: ClientError) -> bool:
    """Whether no answer came at all; a collector that is starting or busy says when to come back."""
    return isinstance(error, CollectorUnavailableError) and error.retry_after is None


def step_of(message: Message) -> Step:
    """A message of a stream as a step.

    Raises:
        UnexpectedAnswerError: it is none.
    """
    try:
        entry = json.loads(message.data)
        more = {key: value for key, value in entry.items() if key not in _OWN}
        return Step(str(entry["time"]), str(entry["event"]), dict(entry["details"]), more)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UnexpectedAnswerError(
            'the stream sent something else than {"time", "event", "details"}'
        ) from error


_OWN: Final = frozenset({"time", "event", "details"})


def _document(message: Message) -> Mapping[str, Any]:
    try:
        document = json.loads(message.data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
