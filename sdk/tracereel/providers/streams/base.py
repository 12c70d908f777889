"""What the stream adapters share: events with a place and a time, ends of every kind, one result."""

import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

import msgspec

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
    ToolCall,
    Usage,
)
from tracereel.providers.failures import failure_of
from tracereel.providers.normalizer import BatchResultNormalizer
from tracereel.providers.reading import fields_text
from tracereel.providers.stop_reasons import canonical_stop_reason
from tracereel.providers.streams.room import MAX_KEPT_CHARACTERS, Room
from tracereel.providers.streams.sse import DONE, SseDecoder, decode_frame

MAX_PROBLEMS: Final = 100
"""Problems of one stream that are kept; a stream of rubbish must not fill memory."""


class StreamAdapter:
    """Turns the chunks of one provider's stream into canonical events, and the whole into a result.

    The chunks are put together to the provider's own answer, which is then normalised like one that
    was not streamed: so both give the same result. One adapter serves one stream at a time.
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
        """Forgets everything: the next chunk begins a new stream, and its time begins now."""
        self._begun = self._time = self._clock()
        self._offset = self._now() - self._begun
        self._first: float | None = None
        self._last: float | None = None
        self._longest_gap = 0.0
        self._token_chunks = 0
        self._emitted = 0
        self._block = 0
        self._started = False
        self._stop_word: str | None = None
        self._end: StreamEvent | None = None
        self._model: str | None = None
        self._message_id: str | None = None
        self._failure: Failure | None = None
        self._problems: list[Problem] = []
        self._sse = SseDecoder()
        self._room = Room(self._max_characters)
        self._forget()

    @property
    def current_block_index(self) -> int:
        """The number of the content block that is coming."""
        return self._block

    @property
    def ended(self) -> bool:
        """Whether the stream has had its `stream_end`."""
        return self._end is not None

    @property
    def is_complete(self) -> bool:
        """Whether the provider has said that the answer is whole, or has ended it otherwise."""
        return self._end is not None or self._is_complete()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Chunks that could not be understood, and whether the answer was too long to keep."""
        if not self._room.lost:
            return tuple(self._problems)
        message = f"the last {self._room.lost} characters of the answer were not kept"
        return (*self._problems, Problem(code="answer_too_long", message=message))

    def process_chunk(self, chunk: Any) -> list[StreamEvent]:
        """The events of one chunk (a dictionary or a client's object); none for ignored kinds."""
        if self._end is not None:
            return []
        self._time = self._clock()
        out: list[StreamEvent] = []
        try:
            self._take(chunk, out)
        except Exception as raised:  # noqa: BLE001 - a chunk of whatever shape never breaks the stream
            self._report(
                "malformed_chunk", f"{type(raised).__name__}: {fields_text(raised)}", chunk
            )
        return out

    def follow(self, data: bytes | None) -> bool:
        """Take in the data of a frame without telling its events, for who wants the result alone.

        True where it says that the provider has sent everything. Most frames are a piece of text:
        those are read without making objects of everything around it.
        """
        if data is not None and self._end is None:
            try:
                if self._take_text(data):
                    return False
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                pass  # of another shape: it is looked at as a whole
        frame = decode_frame(data)
        if frame is DONE:
            return True
        if frame is None:
            self.report_malformed("a frame's data is no JSON")
        else:
            self.process_chunk(frame)
        return False

    def process_bytes(self, data: bytes) -> list[StreamEvent]:
        """The events of some bytes of a `text/event-stream` body, however they are cut."""
        out: list[StreamEvent] = []
        for frame in self._sse.feed(data):
            if frame is DONE:
                out.extend(self.finish())
            elif frame is None:
                self.report_malformed("a frame's data is no JSON")
            else:
                out.extend(self.process_chunk(frame))
        return out

    def report_malformed(self, message: str) -> None:
        """Something came that is no chunk."""
        self._report("malformed_chunk", message, None)

    def finish(self) -> list[StreamEvent]:
        """The stream is exhausted; one that never said how it ended has been cut, which is an error."""
        if self._end is None and not self._is_complete():
            cut = Failure(type="StreamCut", message="the stream ended before the answer did")
            return self._close("error", None, cut)
        return self._close(None, self._stop_word, None)

    def fail(self, error: BaseException | Failure | str) -> list[StreamEvent]:
        """The stream broke."""
        return self._close("error", None, failure_of(error))

    def abandon(self) -> list[StreamEvent]:
        """The program stopped reading before the end."""
        return self._close("user_cancelled", None, None)

    def timings(self) -> StreamTimings:
        """First token, gaps and rate, up to now or to the end."""
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
        """The answer so far, as it would be had it not been streamed."""
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
        """The answer so far in the provider's own shape, as if it had not been streamed."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Empties what the adapter has put together."""
        raise NotImplementedError

    def _take(self, chunk: Any, out: list[StreamEvent]) -> None:
        """Takes in one chunk and adds its events."""
        raise NotImplementedError

    def take_text(self, data: bytes | str) -> bool:
        """Take in a chunk of JSON if it is a piece of a text that has begun; else nothing has happened."""
        try:
            return self._end is None and self._take_text(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return False

    def _take_text(self, data: bytes | str) -> bool:  # noqa: ARG002
        """Takes in a chunk of JSON if it is a piece of a text that has begun, and nothing else."""
        return False

    def _is_complete(self) -> bool:
        """Whether the provider has said that the answer is whole."""
        return self._stop_word is not None

    def _usage(self) -> Usage | None:
        """The tokens, as far as they are known."""
        raise NotImplementedError

    def _flush(self, out: list[StreamEvent]) -> None:
        """Adds events that were held back until the end."""

    def _emit(self, kind: StreamEventType, raw: Any, **fields: Any) -> StreamEvent:
        event = StreamEvent(
            type=kind,
            provider=self.provider,
            timestamp=self._time + self._offset,
            original_index=self._emitted,
            block_index=self._block,
            model=self._model or self._requested_model or UNKNOWN_MODEL,
            message_id=self._message_id,
            raw=raw if self._keep_raw else None,
            **fields,
        )
        self._emitted += 1
        return event

    def _start(self, out: list[StreamEvent], raw: Any) -> None:
        if not self._started:
            self._started = True
            out.append(self._emit("stream_start", raw))

    def _piece(self, parts: list[str], part: str) -> None:
        """Notes a piece of a text that nobody is told of: as `_token`, most chunks come by here."""
        self._room.keep(parts, part)
        self._time = now = self._clock()
        last = self._last
        if last is None:
            self._first = now
        elif now - last > self._longest_gap:
            self._longest_gap = now - last
        self._last = now
        self._token_chunks += 1

    def _token(self) -> None:
        """Notes that a token came."""
        now = self._time
        last = self._last
        if last is None:
            self._first = now
        elif now - last > self._longest_gap:
            self._longest_gap = now - last
        self._last = now
        self._token_chunks += 1

    def _said(self, out: list[StreamEvent], content: str, raw: Any) -> None:
        self._token()
        out.append(  # as `_emit` does, without its detour: most chunks come by here
            StreamEvent(
                type="content_delta",
                provider=self.provider,
                timestamp=self._time + self._offset,
                original_index=self._emitted,
                block_index=self._block,
                model=self._model or self._requested_model or UNKNOWN_MODEL,
                message_id=self._message_id,
                content=content,
                raw=raw if self._keep_raw else None,
            )
        )
        self._emitted += 1

    def _thought(self, out: list[StreamEvent], reasoning: str, raw: Any) -> None:
        self._token()
        out.append(self._emit("reasoning_delta", raw, reasoning=reasoning))

    def _called(self, out: list[StreamEvent], call: ToolCall, raw: Any) -> None:
        out.append(self._emit("tool_call", raw, tool_call=call, is_final=True))

    def _cited(self, out: list[StreamEvent], citation: Citation | None, raw: Any) -> None:
        if citation is None:
            self._report("malformed_chunk", "a citation says nothing", raw)
        else:
            out.append(self._emit("citation", raw, citation=citation))

    def _counted(self, out: list[StreamEvent], raw: Any) -> None:
        out.append(self._emit("usage", raw, usage=self._usage()))

    def _report(self, code: str, message: str, raw: Any) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            kept = raw if self._keep_raw else None
            self._problems.append(Problem(code=code, message=message, raw=kept))

    def _close(
        self, stop: StopReason | None, stop_word: str | None, failure: Failure | None
    ) -> list[StreamEvent]:
        if self._end is not None:
            return []
        self._time = self._clock()
        self._failure = self._failure or failure
        out: list[StreamEvent] = []
        self._start(out, None)
        self._flush(out)
        if stop is None:
            stop = canonical_stop_reason(stop_word, self.provider)[0]
        self._end = self._emit(
            "stream_end",
            None,
            is_streaming=False,
            is_final=True,
            usage=self._usage(),
            stop_reason=stop,
            stop_reason_raw=stop_word,
            failure=self._failure,
            timings=self.timings(),
        )
        out.append(self._end)
        return out
