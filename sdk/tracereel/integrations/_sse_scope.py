"""Scopes of an SSE agent: its execution and each of its streams."""

from collections.abc import Mapping
from typing import Any, Final

from tracereel._core.executions.agent import AgentScope, AgentSpec
from tracereel._core.executions.arguments import IDS, Arguments, Ids, check, put
from tracereel._core.executions.output import OutputStream
from tracereel._core.executions.scope import ExecutionScope, Spec
from tracereel._core.executions.steps import StepScope, StepSpec
from tracereel._core.recorder import Recorder
from tracereel._redact import values
from tracereel._redact.content import ContentCopies
from tracereel._runtime import guard
from tracereel.integrations._sse_run import SseRun, SseSettings
from tracereel.integrations._sse_tools import inside
from tracereel.providers.reading import get
from tracereel.semconv import SUMMARY_LIMIT

THREADS: Final = ("thread_id", "threadId")
QUESTIONS: Final = ("message", "question", "user_prompt", "prompt")
BODIES: Final = ("body", "request", "payload")


class _SseArguments(Arguments):
    """Arguments whose thread id is the session id."""

    def ids(self) -> Ids:
        found = super().ids()
        if "session_id" not in found and (thread := self.thread()) is not None:
            put(found, "session_id", thread)
        return found

    def thread(self) -> Any:
        """Return the thread id from the arguments or a request body."""
        thread = self.find(*THREADS)
        for name in BODIES:
            if thread is None:
                thread = get(self.find(name), *THREADS)
        return thread

    def question(self) -> str | None:
        """Return the question from the arguments or a request body."""
        for asked in (
            self.find(*QUESTIONS),
            *(get(self.find(name), *QUESTIONS) for name in BODIES),
        ):
            if isinstance(asked, str) and asked:
                return asked
        return None

    def summary(self) -> str:
        """Return the question, and the other arguments on a second line."""
        question = self.question()
        if question is None:
            return values.call_summary(self.pairs())
        given = self.pairs()
        for name, value in given:
            if name in BODIES and type(value) is dict:
                given = [pair for pair in given if pair[0] != name] + list(value.items())
        known = (*QUESTIONS, *THREADS, *IDS)
        others = [(name, value) for name, value in given if name not in known and value is not None]
        words = values.text(question, SUMMARY_LIMIT)
        rest = SUMMARY_LIMIT - len(words) - 1
        if not others or rest < 1:
            return words
        return f"{words}\n{values.call_summary(others, rest)}"


class SseSpec(AgentSpec):
    """Options of `traced_sse` or `wrap`."""

    __slots__ = ("lines", "settings", "status")

    def __init__(self, name: str, settings: SseSettings, **about: Any) -> None:
        super().__init__(name, temperature=None, max_tokens=None, **about)
        self.settings = settings
        self.status: int | None = None
        """HTTP status, if there is a response."""
        self.lines: bool | None = None
        """Whether the items are lines without line ends, if known."""

    def open(self, recorder: Recorder, arguments: Arguments) -> ExecutionScope:
        if self.inputs is not None:
            arguments = Arguments((), 0, (), self.inputs)
        given = arguments.names, arguments.skip, arguments.args, arguments.kwargs
        return SseScope(recorder, self, _SseArguments(*given, arguments.defaults))


class SseScope(AgentScope):
    """Execution of an SSE agent; a `done` or `error` frame ends it."""

    spec: SseSpec

    __slots__ = ("_ends_with_answer", "_has_ended", "run")

    def __init__(self, recorder: Recorder, spec: SseSpec, arguments: Arguments) -> None:
        self._has_ended = False
        self._ends_with_answer = False
        super().__init__(recorder, spec, arguments)

    def opened(self) -> None:
        super().opened()
        spec = self.spec
        thread = {**spec.ids, **self.arguments.ids()}.get("session_id")
        self.run = SseRun(self, spec.settings, asked_thread=thread, status=spec.status)
        self.stream = self.run
        self.execution.notes[RUN] = self.run, self

    def opening(self) -> dict[str, Any]:
        event = super().opening()
        if self.captures and isinstance(self.arguments, _SseArguments):
            event["input_summary"] = self.arguments.summary()
        return event

    def listen(self, kind: str) -> OutputStream:
        del kind  # the run reads frames, whatever the kind of stream
        self._ends_with_answer = True
        self.run.opened(lines=self.spec.lines)
        return self.run

    def adopt_thread(self, thread: str) -> None:
        """Use the agent's thread id as session id of all later events."""
        session = check("session_id", thread)
        if session is not None:
            self.execution.session_id = session
            self._identify(self.execution, self.execution.request_id)

    def answered(self) -> None:
        """End the execution after the last frame."""
        if self._ends_with_answer:
            self.complete(None)

    def complete(self, result: object) -> None:
        if self._is_over():
            return
        error = self.run.verdict()
        self.run.end_tools(error=error)
        if error is not None:
            super().fail(error)
        else:
            super().complete(result)

    def cancel(self) -> None:
        if not self._is_over():
            self.run.end_tools(error=None, abandoned=True)
            super().cancel()

    def fail(self, error: BaseException) -> None:
        if not self._is_over():
            self.run.end_tools(error=error)
            super().fail(error)

    def _is_over(self) -> bool:
        if self._has_ended:
            with guard.Guard("sse"):
                self.detach()
            return True
        self._has_ended = True
        return False

    def _ended(self, event: dict[str, Any], status: str, milliseconds: int) -> None:
        super()._ended(event, status, milliseconds)
        event.update(self.run.fields())


RUN: Final = "sse_run"
"""Note with the run and scope of an execution, for streams opened inside it."""


class StreamSpec(StepSpec):
    """One stream of an execution that opens several."""

    __slots__ = ("_around", "_run", "lines")

    def __init__(self, run: SseRun, around: SseScope) -> None:
        super().__init__("sse_stream", step_type="stream", ids={}, inputs={})
        self._run = run
        self._around = around
        self.lines: bool | None = None

    def open(self, recorder: Recorder, arguments: Arguments) -> ExecutionScope:
        del arguments  # arguments of the method that returns the stream
        self._run.opened(lines=self.lines)
        with inside(self._around):
            scope = StreamScope(recorder, self, Arguments((), 0, (), {}))
        scope.run = self._run
        scope.number = self._run.streams
        return scope


class StreamScope(StepScope):
    """One of several streams; closing it after the last frame is not a cancellation."""

    __slots__ = ("number", "run")

    run: SseRun
    number: int

    def listen(self, kind: str) -> OutputStream:
        return _SsePart(kind, self.run, self.copies)

    def cancel(self) -> None:
        if self.run.outcome is not None:
            self.complete(None)
        else:
            super().cancel()

    def fail(self, error: BaseException) -> None:
        if self.run.outcome is not None and isinstance(error, GeneratorExit):
            self.complete(None)
        else:
            super().fail(error)

    def about(self) -> dict[str, Any]:
        return {**super().about(), "stream_number": self.number}


class _SsePart(OutputStream):
    """Items of one stream, which are also passed to the execution."""

    def __init__(self, kind: str, run: SseRun, copies: ContentCopies | None) -> None:
        super().__init__(kind, copies)
        self._run = run

    def add(self, item: Any) -> None:
        super().add(item)
        self._run.add(item)


def spec_of_block(notes: Mapping[str, Any]) -> Spec | None:
    """Return the spec of a stream inside an SSE agent, or `None`."""
    found = notes.get(RUN)
    return None if found is None else StreamSpec(*found)
