"""One question to an SSE agent, read frame by frame: tools, rounds, first token, sources, thread."""

import time
from collections.abc import Mapping
from typing import Any, Final, Literal

from tracereel import _guard, _values
from tracereel._scopes.output import Stream
from tracereel.integrations._sse_frames import (
    MESSAGE,
    Frame,
    FrameReader,
    is_token,
    text_of_token,
)
from tracereel.integrations._sse_tools import SseToolError, Tools, tells_end
from tracereel.providers.reading import get, mapping, text
from tracereel.providers.usage import usage_of

KINDS: Final = ("tool_status", "token", "done", "error")
MAX_SOURCES: Final = 200
"""Sources and context chunks of one answer that are listed; all sources are counted."""
MAX_WAITING: Final = 64
"""Tokens that wait to be read: together is cheaper, and memory is bounded."""
SSE: Final = "sse"

_QUOTES: Final = _values.size("")

Rounds = Literal["calls", "streams"]


class SseAgentError(Exception):
    """What an `error` frame says, or that a stream was cut; recorded, never raised."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class SseRun(Stream):
    """What the frames of one execution have said so far; its text is the answer's."""

    def __init__(
        self,
        *,
        captures: bool,
        round_limit: int | None,
        rounds: Rounds,
        names: Mapping[str, str],
        asked_thread: str | None,
        status: int | None,
    ) -> None:
        super().__init__(SSE, captures=captures)
        self.outcome: str | None = None
        """`done` or `error`, once such a frame has come."""
        self.failure: SseAgentError | None = None
        self.thread_id = asked_thread
        self.run_id: str | None = None
        self.tools: Tools | None = None
        self.streams = 0
        """How often a stream of it was opened."""
        self._scope: Any = None
        self._reader = FrameReader()
        self._captures_content = captures
        self._round_limit = round_limit
        self._rounds_by = rounds
        self._names = names
        self._asked_thread = asked_thread
        self._status = status
        self._round = 0
        self._round_mark: object = None
        self._waiting: list[tuple[int, Any]] = []
        """Tokens that are not read yet: when each came, and its frame."""
        self._tick = 0
        """When what is read now came."""
        self._last_tick: int | None = None
        self._longest_gap = 0
        self._sources: list[Any] | None = None
        self._chunk_ids: list[Any] | None = None
        self._malformed = 0
        self._ignored = 0
        self._too_long = 0

    def begin(self, scope: Any, *, records_tools: bool) -> None:
        """The execution has begun."""
        self._scope = scope
        if records_tools:
            self.tools = Tools(scope.recorder, scope)

    def opened(self, *, lines: bool | None = None) -> None:
        """A stream is opened: the first, or another one after the tools have answered."""
        self.settle()
        self.streams += 1
        self._too_long += self._reader.given_up
        self._reader = FrameReader(lines=lines)

    def add(self, item: Any) -> None:
        """Take what the stream gives; whatever is no token is read at once."""
        waiting, tick = self._waiting, time.perf_counter_ns()
        if is_token(item) and (waiting or self._may_wait()):
            waiting.append((tick, item))
            if len(waiting) >= MAX_WAITING:
                self.settle()
            return
        if waiting:
            self.settle()
        self._read(tick, item)

    def _may_wait(self) -> bool:
        tools = self.tools
        return self.outcome is None and (tools is None or tools.are_idle) and self._reader.passes()

    def _read(self, tick: int, item: Any) -> None:
        self._tick = tick
        for frame in self._reader.read(item):
            self._take(frame)

    def settle(self) -> None:
        """Read the tokens that wait."""
        waiting, self._waiting = self._waiting, []
        pieces: list[str] = []
        for tick, item in waiting:
            piece = text_of_token(item)
            if piece is not None:
                self._note(tick, piece)
                pieces.append(piece)
            else:
                self._keep(pieces)
                pieces = []
                self._read(tick, item)
        self._keep(pieces)

    def _note(self, tick: int, piece: str) -> None:
        """A token came then."""
        last = self._last_tick
        if last is not None and tick - last > self._longest_gap:
            self._longest_gap = tick - last
        if piece:
            self._last_tick = tick
            if self.first_tick is None:
                self.first_tick = tick

    def _keep(self, pieces: list[str]) -> None:
        """Add pieces of the answer as one: they are counted, and measured, as if they came alone."""
        if pieces:
            more = len(pieces) - 1
            super().add("".join(pieces))
            self.items += more
            self.size += more * _QUOTES

    def _take(self, frame: Frame) -> None:
        payload = frame.payload()
        kind = frame.event
        if kind == "token" and self.outcome is None and type(payload) is dict and len(payload) == 1:
            # Most frames are these: what a token says of anything else is looked for below.
            if self.tools is not None:
                self.tools.end_waiting()
            self._token(payload)
            return
        said = mapping(payload)
        if kind == MESSAGE and (named := text(said.get("type"))) is not None:
            kind = named
        kind = self._names.get(kind, kind)
        self._identify(said)
        if self.outcome is not None:
            return
        if kind not in KINDS:
            self._ignored += 1
            return
        if kind != "token" and not said:
            # An end is an end, whatever stands in it.
            self._malformed += payload is None
            if kind == "tool_status":
                return
        tools = self.tools
        if tools is not None and kind in ("token", "done"):
            tools.end_waiting()
        if kind == "token":
            self._token(frame.data if payload is None else payload)
        elif kind == "tool_status":
            self._tool(said)
        elif kind == "done":
            self._done(said)
        else:
            self._failed(said, frame.data if payload is None else payload)

    def _identify(self, said: dict[str, Any]) -> None:
        thread = get(said, "threadId", "thread_id", "sessionId", "session_id")
        if isinstance(thread, str) and thread and thread != self.thread_id:
            self.thread_id = thread
            self._scope.adopt_thread(thread)
        run_id = text(get(said, "runId", "run_id"))
        if run_id is not None and self.run_id is None:
            self.run_id = _values.text(run_id, _values.SHORT_LIMIT)

    def _token(self, payload: Any) -> None:
        piece = payload.get("text") if type(payload) is dict else None
        if piece is None:
            piece = payload if isinstance(payload, str) else get(payload, "content", "delta")
        if not isinstance(piece, str):
            self._malformed += 1
            return
        self._note(self._tick, piece)
        self._keep([piece])

    def _tool(self, said: dict[str, Any]) -> None:
        tools = self.tools
        if tools is not None and tools.knows(said) and not tells_end(said):
            return  # how far it is
        if tools is not None and tells_end(said) and tools.end(said):
            return
        if tools is not None:
            tools.end_waiting()
        self._begin_round(said)
        if tools is not None:
            tools.begin(said, self._round)
            if tells_end(said):
                tools.end(said)

    def _begin_round(self, said: dict[str, Any]) -> None:
        """Each call is a round, unless it is said or seen that calls belong together."""
        mark: object = get(said, "round")
        if mark is None and self._rounds_by == "streams":
            mark = ("stream", self.streams)
        if mark is not None and mark == self._round_mark:
            return
        if mark is None and self.tools is not None and self.tools.at_work:
            return
        self._round_mark = mark
        self._round += 1
        self._scope.execution.round(limit=self._round_limit)

    def _done(self, said: dict[str, Any]) -> None:
        sources = said.get("sources")
        if isinstance(sources, list):
            self._sources = sources
        chunks = get(said, "contextChunkIds", "context_chunk_ids")
        if isinstance(chunks, list):
            self._chunk_ids = chunks
        execution = self._scope.execution
        if (usage := usage_of(said)) is not None:
            execution.add_usage(
                prompt_tokens=usage.input_tokens, completion_tokens=usage.output_tokens
            )
        execution.set(llm_model=text(said.get("model")))
        self._end("done")

    def _failed(self, said: dict[str, Any], data: Any) -> None:
        found = get(said, "message", "error", "detail")
        message = found if isinstance(found, str) else get(found, "message")
        if message is None and isinstance(data, str):
            message = data
        code = get(said, "code", "error_code") or get(mapping(found), "code")
        self.failure = SseAgentError(
            _values.text(text(message) or "the agent sent an error without a message", 4096),
            code=None if code is None else _values.label(code),
        )
        self._end("error")

    def _end(self, outcome: str) -> None:
        self.outcome = outcome
        self._scope.answered()

    def verdict(self) -> SseAgentError | None:
        """Null for a whole answer, else why it is none."""
        if self.outcome is not None:
            return self.failure
        if self._status is not None and self._status >= 400:
            return SseAgentError(f"HTTP {self._status}", code=f"HTTP_{self._status}")
        return SseAgentError("the stream ended without done or error", code="STREAM_CUT")

    def end_tools(self, *, error: BaseException | None, abandoned: bool = False) -> None:
        """The execution is over."""
        with _guard.Guard("sse"):
            if self.tools is None:
                return
            if error is None and not abandoned:
                self.tools.end_waiting()
            failed = SseToolError(str(error)) if isinstance(error, SseAgentError) else error
            self.tools.end_all(error=failed, by="end_of_run")

    def fields(self) -> dict[str, Any]:
        """What the closing event says beside what every execution's does."""
        said: dict[str, Any] = {
            "run_id": self.run_id,
            "session_state": self._session_state(),
            "streams": self.streams,
            "output_items": self.items,
        }
        if self.first_tick is not None and self._last_tick is not None:
            said["time_to_first_token_ms"] = self._scope.since_begin_ms(self.first_tick)
            said["longest_gap_ms"] = self._longest_gap // 1_000_000
            seconds = (self._last_tick - self.first_tick) / 1e9
            if self.items > 1 and seconds > 0:
                said["tokens_per_second"] = round((self.items - 1) / seconds, 3)
        if self.tools is not None and self.tools.calls:
            said["tool_calls"] = self.tools.calls
        if self._round_limit is not None:
            said["rounds"] = min(self._round, self._round_limit)
            said["round_limit"] = self._round_limit
            said["round_limit_reached"] = self._round >= self._round_limit
        if self._sources is not None:
            said["source_count"] = len(self._sources)
            if self._captures_content:
                said["sources"] = _values.plain(self._sources[:MAX_SOURCES])
        if self._chunk_ids is not None:
            said["context_chunk_ids"] = _values.plain(self._chunk_ids[:MAX_SOURCES])
        counts = {
            "frames_malformed": self._malformed,
            "frames_ignored": self._ignored,
            "frames_too_long": self._too_long + self._reader.given_up,
        }
        said.update({name: count for name, count in counts.items() if count})
        return said

    def _session_state(self) -> str | None:
        if self.thread_id is None:
            return None
        return "resumed" if self.thread_id == self._asked_thread else "new"
