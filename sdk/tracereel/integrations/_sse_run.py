"""State of one request to an SSE agent: tools, rounds, first token, sources and thread."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracereel._core.executions.output import OutputStream
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel._runtime.sse_parser import MESSAGE
from tracereel.failures import (
    CATEGORIES,
    PERMANENT,
    TRANSIENT,
    VALIDATION,
    Category,
    ClassifiedError,
)
from tracereel.integrations._sse_frames import Frame, FrameReader
from tracereel.integrations._sse_tools import SseToolError, Tools, is_end_frame
from tracereel.providers.reading import get, mapping, text
from tracereel.providers.usage import usage_of

KINDS: Final = ("tool_status", "token", "done", "error")
MAX_SOURCES: Final = 200
"""Sources and context chunks that are listed per response; all sources are counted."""

UNKNOWN_CODE: Final = "AGENT_ERROR"
_CATEGORY_WORDS: Final[dict[Category, tuple[str, ...]]] = {
    TRANSIENT: (
        *("rate_limit", "ratelimit", "too_many", "quota", "overload", "timeout", "time_limit"),
        *("unavailable", "busy", "stream_cut", "server_error", "internal", "run_failed"),
        *("http_5", "http_408", "http_429"),
    ),
    VALIDATION: ("invalid", "validation", "malformed", "bad_request", "http_400", "http_422"),
}
"""Category → parts of the codes that have it."""
_STAGES_OF_STATUS: Final = {401: "authentication", 403: "authorization"}

Rounds = Literal["calls", "streams"]


class SseAgentError(ClassifiedError):
    """Content of an `error` frame, or a cut stream; recorded, never raised.

    A missing category follows from the code.
    """

    def __init__(
        self, message: str, *, code: str, stage: str, category: Category | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.stage = stage
        self.category = category or category_of(code)


def category_of(code: str) -> Category:
    """Return the category of an error code: `transient`, `validation`, or else `permanent`."""
    word = code.lower()
    for category, parts in _CATEGORY_WORDS.items():
        if any(part in word for part in parts):
            return category
    return PERMANENT


@dataclass(frozen=True, slots=True, kw_only=True)
class SseSettings:
    """Options for reading the frames of an agent."""

    round_limit: int | None
    rounds: Rounds
    names: Mapping[str, str]
    records_tools: bool


class SseRun(OutputStream):
    """Content of one execution's frames so far; its text is the agent's response."""

    def __init__(
        self, scope: Any, settings: SseSettings, *, asked_thread: str | None, status: int | None
    ) -> None:
        super().__init__("sse", scope.copies)
        self.outcome: str | None = None
        """`done` or `error` after such a frame."""
        self.failure: SseAgentError | None = None
        self.thread_id = asked_thread
        self.run_id: str | None = None
        self.tools = Tools(scope.recorder, scope) if settings.records_tools else None
        self.streams = 0
        """Number of streams opened."""
        self._scope = scope
        self._settings = settings
        self._reader = FrameReader()
        self._asked_thread = asked_thread
        self._status = status
        self._round = 0
        self._round_mark: object = None
        self._tick = 0
        """Arrival time of the current item."""
        self._last_tick: int | None = None
        self._longest_gap = 0
        self._sources: list[Any] | None = None
        self._chunk_ids: list[Any] | None = None
        self._malformed = 0
        self._ignored = 0
        self._too_long = 0

    def opened(self, *, lines: bool | None = None) -> None:
        """Start reading a stream: the first, or another one after tool results."""
        self.streams += 1
        self._too_long += self._reader.given_up
        self._reader = FrameReader(lines=lines)

    def add(self, item: Any) -> None:
        """Read one item of the stream."""
        self._tick = time.perf_counter_ns()
        for frame in self._reader.read(item):
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        payload = frame.payload()
        kind = frame.event
        if kind == "token" and self.outcome is None and type(payload) is dict and len(payload) == 1:
            # Fast path: most frames are plain tokens without further fields.
            if self.tools is not None:
                self.tools.end_waiting()
            self._token(payload)
            return
        data = mapping(payload)
        if kind == MESSAGE and (named := text(data.get("type"))) is not None:
            kind = named
        kind = self._settings.names.get(kind, kind)
        self._identify(data)
        if self.outcome is not None:
            return
        if kind not in KINDS:
            self._ignored += 1
            return
        if kind != "token" and not data:
            # `done` and `error` end the run even with invalid data.
            self._malformed += payload is None
            if kind == "tool_status":
                return
        tools = self.tools
        if tools is not None and kind in ("token", "done"):
            tools.end_waiting()
        if kind == "token":
            self._token(frame.data if payload is None else payload)
        elif kind == "tool_status":
            self._tool(data)
        elif kind == "done":
            self._done(data)
            self._end("done")
        else:
            self._failed(data, frame.data if payload is None else payload)
            self._end("error")

    def _identify(self, data: dict[str, Any]) -> None:
        thread = get(data, "threadId", "thread_id", "sessionId", "session_id")
        if isinstance(thread, str) and thread and thread != self.thread_id:
            self.thread_id = thread
            self._scope.adopt_thread(thread)
        run_id = text(get(data, "runId", "run_id"))
        if run_id is not None and self.run_id is None:
            self.run_id = values.text(run_id, values.SHORT_LIMIT)

    def _token(self, payload: Any) -> None:
        piece = payload.get("text") if type(payload) is dict else None
        if piece is None:
            piece = payload if isinstance(payload, str) else get(payload, "content", "delta")
        if not isinstance(piece, str):
            self._malformed += 1
            return
        last = self._last_tick
        if last is not None and self._tick - last > self._longest_gap:
            self._longest_gap = self._tick - last
        if piece:
            self._last_tick = self._tick
            if self.first_tick is None:
                self.first_tick = self._tick
        super().add(piece)

    def _tool(self, data: dict[str, Any]) -> None:
        tools = self.tools
        if tools is not None and tools.knows(data) and not is_end_frame(data):
            return  # progress report
        if tools is not None and is_end_frame(data) and tools.end(data):
            return
        if tools is not None:
            tools.end_waiting()
        self._begin_round(data)
        if tools is not None:
            tools.begin(data, self._round)
            if is_end_frame(data):
                tools.end(data)

    def _begin_round(self, data: dict[str, Any]) -> None:
        """Start a round for a tool call, unless it belongs to the current round."""
        mark: object = get(data, "round")
        if mark is None and self._settings.rounds == "streams":
            mark = ("stream", self.streams)
        if mark is not None and mark == self._round_mark:
            return
        if mark is None and self.tools is not None and self.tools.at_work:
            return
        self._round_mark = mark
        self._round += 1
        self._scope.execution.round(limit=self._settings.round_limit)

    def _done(self, data: dict[str, Any]) -> None:
        sources = data.get("sources")
        if isinstance(sources, list):
            self._sources = sources
        chunks = get(data, "contextChunkIds", "context_chunk_ids")
        if isinstance(chunks, list):
            self._chunk_ids = chunks
        execution = self._scope.execution
        if (usage := usage_of(data)) is not None:
            execution.add_usage(
                prompt_tokens=usage.input_tokens, completion_tokens=usage.output_tokens
            )
        execution.set(llm_model=text(data.get("model")))

    def _failed(self, fields: dict[str, Any], data: Any) -> None:
        found = get(fields, "message", "error", "detail")
        message = found if isinstance(found, str) else get(found, "message")
        if message is None and isinstance(data, str):
            message = data
        code, category, stage = (
            get(fields, name, f"error_{name}") or get(mapping(found), name)
            for name in ("code", "category", "stage")
        )
        self.failure = SseAgentError(
            values.text(text(message) or "the agent sent an error without a message", 4096),
            code=(None if code is None else values.label(code)) or UNKNOWN_CODE,
            stage=(None if stage is None else values.label(stage)) or self._stage(),
            category=category if category in CATEGORIES else None,
        )

    def _stage(self) -> str:
        """Return what the agent was doing, as far as its frames show it."""
        if self.tools is not None and self.tools.is_open:
            return "tool_execution"
        return "llm_call" if self.first_tick is not None or self._round else "orchestration"

    def _end(self, outcome: str) -> None:
        self.outcome = outcome
        self._scope.answered()

    def verdict(self) -> SseAgentError | None:
        """Return `None` for a complete response, else the reason of the failure."""
        if self.outcome is not None:
            return self.failure
        if self._status is not None and self._status >= 400:
            stage = _STAGES_OF_STATUS.get(self._status, "request")
            code = f"HTTP_{self._status}"
            return SseAgentError(f"HTTP {self._status}", code=code, stage=stage)
        message = "the stream ended without done or error"
        return SseAgentError(message, code="STREAM_CUT", stage=self._stage())

    def end_tools(self, *, error: BaseException | None, abandoned: bool = False) -> None:
        """End all open tools with the execution."""
        with guard.Guard("sse"):
            if self.tools is None:
                return
            if error is None and not abandoned:
                self.tools.end_waiting()
            failed = SseToolError(str(error)) if isinstance(error, SseAgentError) else error
            self.tools.end_all(error=failed, by="end_of_run")

    def fields(self) -> dict[str, Any]:
        """Return the additional fields of the closing event."""
        state = None
        if self.thread_id is not None:
            state = "resumed" if self.thread_id == self._asked_thread else "new"
        found: dict[str, Any] = {
            "run_id": self.run_id,
            "session_state": state,
            "streams": self.streams,
            "output_items": self.items,
        }
        if self.first_tick is not None and self._last_tick is not None:
            found["time_to_first_token_ms"] = self._scope.since_begin_ms(self.first_tick)
            found["longest_gap_ms"] = self._longest_gap // 1_000_000
            seconds = (self._last_tick - self.first_tick) / 1e9
            if self.items > 1 and seconds > 0:
                found["tokens_per_second"] = round((self.items - 1) / seconds, 3)
        if self.tools is not None and self.tools.calls:
            found["tool_calls"] = self.tools.calls
        if (limit := self._settings.round_limit) is not None:
            found["rounds"] = self._round
            found["round_limit"] = limit
            found["round_limit_reached"] = self._round >= limit
            if self._round >= limit:
                found["round_limit_reached_at"] = limit
        if self._sources is not None:
            found["source_count"] = len(self._sources)
            if self._scope.captures:
                found["sources"] = values.plain(self._sources[:MAX_SOURCES])
        if self._chunk_ids is not None:
            found["context_chunk_ids"] = values.plain(self._chunk_ids[:MAX_SOURCES])
        counts = {
            "frames_malformed": self._malformed,
            "frames_ignored": self._ignored,
            "frames_too_long": self._too_long + self._reader.given_up,
        }
        found.update({name: count for name, count in counts.items() if count})
        return found
