"""Base class of stream adapters: events, timings, ends and the result."""

import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

import msgspec

from tracereel._runtime.sse_parser import MAX_EVENT_BYTES, SseParser
from tracereel.providers.answers import Answer
from tracereel.providers.base import (
    UNKNOWN_MODEL,
    Citation,
    Failure,
    Normalized,
    Problem,
    StopReason,
    StreamEvent,
    StreamEventType,
    StreamTimings,
    Usage,
)
from tracereel.providers.failures import failure_of
from tracereel.providers.normalizer import BatchResultNormalizer
from tracereel.providers.reading import fields_text
from tracereel.providers.stop_reasons import canonical_stop_reason

MAX_KEPT_CHARACTERS: Final = 32 * 2**20
MAX_PROBLEMS: Final = 100
"""Problems kept per stream, to bound memory."""
_CUT: Final = "the stream ended before the answer did"
_DONE: Final = b"[DONE]"
_decode: Final = msgspec.json.Decoder().decode


class Room:
    """Character budget of a response, so that an endless stream cannot exhaust memory."""

    __slots__ = ("_left", "lost")

    def __init__(self, characters: int) -> None:
        self._left = characters
        self.lost = 0
        """Characters that were dropped."""

    def keep(self, parts: list[str], part: str) -> None:
        """Append a part if the budget allows it."""
        self._left -= len(part)
        if self._left >= 0:
            parts.append(part)
        else:
            self.lost += len(part)


class StreamAdapter:
    """Converts the chunks of one provider's stream to canonical events and a result.

    The chunks are assembled to the provider's response, which is normalized like one that was not
    streamed. So both have the same result. An adapter handles one stream at a time.
    """

    provider: ClassVar[str]

    def __init__(
        self,
        *,
        model: str | None = None,
        session_id: str | None = None,
        keep_raw: bool = True,
        max_characters: int = MAX_KEPT_CHARACTERS,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._requested_model = model
        self._session_id = session_id
        self._keep_raw = keep_raw
        self._max_characters = max_characters
        self._clock = clock
        self._now = now
        self.reset()

    def reset(self) -> None:
        """Reset the adapter for a new stream that starts now."""
        self._begun = self._time = self._clock()
        self._offset = self._now() - self._begun
        self._first: float | None = None
        self._last: float | None = None
        self._longest_gap = 0.0
        self._token_chunks = 0
        self._emitted = 0
        self._block = 0
        self._out: list[StreamEvent] = []
        """Events of the current chunk."""
        self._raw: Any = None
        """Chunk that is being read, kept in its events."""
        self._is_followed = False
        """Whether nothing reads the events, so that deltas need none; most chunks are deltas."""
        self._started = False
        self._stop_word: str | None = None
        self._end: StreamEvent | None = None
        self._model: str | None = None
        self._message_id: str | None = None
        self._failure: Failure | None = None
        self._problems: list[Problem] = []
        self._sse = SseParser()
        self._dropped = 0
        self._room = Room(self._max_characters)
        self._forget()

    @property
    def current_block_index(self) -> int:
        """Index of the current content block."""
        return self._block

    @property
    def ended(self) -> bool:
        """Whether `stream_end` was emitted."""
        return self._end is not None

    @property
    def is_complete(self) -> bool:
        """Whether the provider has completed the response or the stream has ended."""
        return self._end is not None or self._is_complete()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Chunks that could not be read, and whether the response was too long to keep."""
        if not self._room.lost:
            return tuple(self._problems)
        message = f"the last {self._room.lost} characters of the answer were not kept"
        return (*self._problems, Problem(code="answer_too_long", message=message))

    def process_chunk(self, chunk: Any) -> list[StreamEvent]:
        """Return the events of one chunk (a dictionary or client object); none for ignored kinds."""
        if self._end is not None:
            return []
        self._time = self._clock()
        self._out, self._raw = [], chunk
        try:
            self._take(chunk)
        except Exception as raised:  # noqa: BLE001 - a malformed chunk must not break the stream
            self._report(f"{type(raised).__name__}: {fields_text(raised)}")
        return self._out

    def follow_bytes(self, data: bytes) -> bool:
        """Read bytes of a `text/event-stream` body, split anywhere, without returning events.

        Return True if the provider has sent everything.
        """
        is_done = False
        for event in self._sse.feed(data):
            if event.data.strip() == _DONE:
                is_done = True
            elif (chunk := self._decoded(event.data)) is not None:
                self.follow_chunk(chunk)
        self._report_dropped()
        return is_done

    def follow_chunk(self, chunk: Any) -> None:
        """Read one chunk without returning events."""
        self._is_followed = True
        self.process_chunk(chunk)
        self._is_followed = False

    def process_bytes(self, data: bytes) -> list[StreamEvent]:
        """Return the events of bytes of a `text/event-stream` body, split anywhere."""
        out: list[StreamEvent] = []
        for event in self._sse.feed(data):
            if event.data.strip() == _DONE:
                out.extend(self.finish())
            elif (chunk := self._decoded(event.data)) is not None:
                out.extend(self.process_chunk(chunk))
        self._report_dropped()
        return out

    def _report_dropped(self) -> None:
        for _ in range(self._sse.dropped - self._dropped):
            self.report_malformed(f"an event of more than {MAX_EVENT_BYTES} bytes")
        self._dropped = self._sse.dropped

    def _decoded(self, data: bytes) -> Any:
        try:
            chunk = _decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            chunk = None
        if chunk is None:
            self.report_malformed("a frame's data is no JSON")
        return chunk

    def report_malformed(self, message: str) -> None:
        """Report input that is not a chunk."""
        self._raw = None
        self._report(message)

    def finish(self) -> list[StreamEvent]:
        """End the stream; without a stop reason it was cut, which is an error."""
        if self._end is None and not self._is_complete():
            return self.fail(Failure(type="StreamCut", message=_CUT))
        self._out = []
        self._close()
        return self._out

    def fail(self, error: BaseException | Failure | str) -> list[StreamEvent]:
        """End the stream with an error."""
        self._out = []
        self._close("error", failure_of(error))
        return self._out

    def abandon(self) -> list[StreamEvent]:
        """End a stream that the program stopped reading."""
        self._out = []
        self._close("user_cancelled")
        return self._out

    def timings(self) -> StreamTimings:
        """Return the timings so far: first token, gaps and rate."""
        gaps = self._token_chunks - 1
        usage = self._usage()
        since_first = None
        if self._first is not None and self._last is not None:
            since_first = self._last - self._first
        rate = None
        if usage is not None and usage.output_tokens and since_first:
            rate = usage.output_tokens / since_first
        return StreamTimings(
            first_token_seconds=None if self._first is None else self._first - self._begun,
            duration_seconds=self._time - self._begun,
            longest_gap_seconds=self._longest_gap if gaps > 0 else None,
            mean_gap_seconds=since_first / gaps if since_first is not None and gaps > 0 else None,
            token_chunks=self._token_chunks,
            tokens_per_second=rate,
        )

    def result(self) -> Normalized:
        """Return the normalized response so far, as if it had not been streamed."""
        end = self._end
        stop: StopReason | None = None
        if end is not None and end.stop_reason in ("error", "user_cancelled"):
            stop = end.stop_reason
        normalizer = BatchResultNormalizer(
            provider=self.provider,
            model=self._requested_model,
            session_id=self._session_id,
            keep_raw=self._keep_raw,
        )
        return normalizer.normalize_stream(
            self.response(), stop=stop, failure=self._failure, problems=self.problems
        )

    def response(self) -> Any:
        """Return the response so far in the provider's format for complete responses."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Reset the assembled response."""
        raise NotImplementedError

    def _take(self, chunk: Any) -> None:
        """Read one chunk and emit its events."""
        raise NotImplementedError

    def _is_complete(self) -> bool:
        """Return whether the provider has completed the response."""
        return self._stop_word is not None

    def _usage(self) -> Usage | None:
        """Return the usage so far, or `None`."""
        raise NotImplementedError

    def _flush(self) -> None:
        """Emit events that were held until the end."""

    def _emit(self, kind: StreamEventType, **fields: Any) -> StreamEvent:
        event = StreamEvent(
            type=kind,
            provider=self.provider,
            timestamp=self._time + self._offset,
            original_index=self._emitted,
            block_index=self._block,
            model=self._model or self._requested_model or UNKNOWN_MODEL,
            message_id=self._message_id,
            raw=self._raw if self._keep_raw else None,
            **fields,
        )
        self._emitted += 1
        self._out.append(event)
        return event

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._emit("stream_start")

    def _token(self) -> None:
        """Record the arrival of a token."""
        now = self._time
        last = self._last
        if last is None:
            self._first = now
        elif now - last > self._longest_gap:
            self._longest_gap = now - last
        self._last = now
        self._token_chunks += 1

    def _emit_text(self, content: str) -> None:
        self._token()
        if not self._is_followed:
            self._emit("content_delta", content=content)

    def _emit_reasoning(self, reasoning: str) -> None:
        self._token()
        if not self._is_followed:
            self._emit("reasoning_delta", reasoning=reasoning)

    def _emit_calls(self, answer: Answer, *, message: int = 0, blocks_before: int = 0) -> None:
        """Emit the tool calls of a complete message or block."""
        for piece in answer.pieces:
            if (call := piece.tool_call) is not None:
                self._block = blocks_before + piece.block_index
                identity = call.id or f"call_{message}_{piece.block_index}"
                call = msgspec.structs.replace(call, id=identity)
                self._emit("tool_call", tool_call=call, is_final=True)

    def _emit_citation(self, citation: Citation | None) -> None:
        if citation is None:
            self._report("a citation says nothing")
        else:
            self._emit("citation", citation=citation)

    def _report(self, message: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            raw = self._raw if self._keep_raw else None
            self._problems.append(Problem(code="malformed_chunk", message=message, raw=raw))

    def _close(self, stop: StopReason | None = None, failure: Failure | None = None) -> None:
        """End the stream, by default with the provider's stop reason."""
        if self._end is not None:
            return
        self._time = self._clock()
        self._raw = None
        self._failure = self._failure or failure
        self._start()
        self._flush()
        self._raw = None
        stop_word = self._stop_word if stop is None else None
        self._end = self._emit(
            "stream_end",
            is_streaming=False,
            is_final=True,
            usage=self._usage(),
            stop_reason=stop or canonical_stop_reason(stop_word, self.provider)[0],
            stop_reason_raw=stop_word,
            failure=self._failure,
            timings=self.timings(),
        )
