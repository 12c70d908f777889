"""The scopes of an SSE agent: its execution, and each of the streams that it is read from."""

from collections.abc import Mapping
from typing import Any, Final

from tracereel import _guard, _values
from tracereel._recorder import Recorder
from tracereel._scopes.agent import AgentScope, AgentSpec
from tracereel._scopes.arguments import IDS, Arguments, Ids, check, put
from tracereel._scopes.base import Scope, Spec
from tracereel._scopes.output import Stream
from tracereel._scopes.steps import StepScope, StepSpec
from tracereel.integrations._sse_run import Rounds, SseRun
from tracereel.integrations._sse_tools import inside
from tracereel.providers.reading import get
from tracereel.semconv import SUMMARY_LIMIT

THREADS: Final = ("thread_id", "threadId")
QUESTIONS: Final = ("message", "question", "user_prompt", "prompt")
BODIES: Final = ("body", "request", "payload")


class _Asked(Arguments):
    """Arguments among which a thread is the session."""

    def ids(self) -> Ids:
        found = super().ids()
        if "session_id" not in found and (thread := self.thread()) is not None:
            put(found, "session_id", thread)
        return found

    def thread(self) -> Any:
        """The thread that is asked to go on, by its own name or in the body of a request."""
        thread = self.find(*THREADS)
        for name in BODIES:
            if thread is None:
                thread = get(self.find(name), *THREADS)
        return thread

    def question(self) -> str | None:
        """What was asked, in the words of who asked, by its own name or in the body of a request."""
        for asked in (
            self.find(*QUESTIONS),
            *(get(self.find(name), *QUESTIONS) for name in BODIES),
        ):
            if isinstance(asked, str) and asked:
                return asked
        return None

    def summary(self) -> str:
        """The question as people read it; what else was given is on a line of its own."""
        question = self.question()
        if question is None:
            return _values.call_summary(self.pairs())
        given = self.pairs()
        for name, value in given:
            if name in BODIES and type(value) is dict:
                given = [pair for pair in given if pair[0] != name] + list(value.items())
        known = (*QUESTIONS, *THREADS, *IDS)
        others = [(name, value) for name, value in given if name not in known and value is not None]
        words = _values.text(question, SUMMARY_LIMIT)
        rest = SUMMARY_LIMIT - len(words) - 1
        if not others or rest < 1:
            return words
        return f"{words}\n{_values.call_summary(others, rest)}"


class SseSpec(AgentSpec):
    """What `traced_sse` or `wrap` was given."""

    __slots__ = ("lines", "names", "records_tools", "round_limit", "rounds", "status")

    def __init__(
        self,
        name: str,
        *,
        version: str | None,
        llm_provider: str | None,
        llm_model: str | None,
        round_limit: int | None,
        rounds: Rounds,
        names: Mapping[str, str],
        records_tools: bool,
        ids: Ids,
        inputs: Mapping[str, Any] | None,
    ) -> None:
        super().__init__(
            name,
            version=version,
            llm_provider=llm_provider,
            llm_model=llm_model,
            temperature=None,
            max_tokens=None,
            ids=ids,
            inputs=inputs,
        )
        self.round_limit = round_limit
        self.rounds = rounds
        self.names = names
        self.records_tools = records_tools
        self.status: int | None = None
        """Of the response, where there is one."""
        self.lines: bool | None = None
        """Whether the items are lines without their ends, where that is known."""

    def open(self, recorder: Recorder, arguments: Arguments) -> Scope:
        if self.inputs is not None:
            arguments = Arguments((), 0, (), self.inputs)
        given = arguments.names, arguments.skip, arguments.args, arguments.kwargs
        return SseScope(recorder, self, _Asked(*given, arguments.defaults))


class SseScope(AgentScope):
    """An execution of an SSE agent. A `done` or `error` frame ends it, whoever reads on or does not."""

    spec: SseSpec

    __slots__ = ("_ends_with_answer", "_has_ended", "run")

    def __init__(self, recorder: Recorder, spec: SseSpec, arguments: Arguments) -> None:
        self._has_ended = False
        self._ends_with_answer = False
        super().__init__(recorder, spec, arguments)

    def opened(self) -> None:
        super().opened()
        spec = self.spec
        self.run = SseRun(
            captures=self.captures,
            round_limit=spec.round_limit,
            rounds=spec.rounds,
            names=spec.names,
            asked_thread={**spec.ids, **self.arguments.ids()}.get("session_id"),
            status=spec.status,
        )
        self.run.begin(self, records_tools=spec.records_tools)
        self.stream = self.run
        self.execution.notes[RUN] = self.run, self

    def opening(self) -> dict[str, Any]:
        event = super().opening()
        if self.captures and isinstance(self.arguments, _Asked):
            event["input_summary"] = self.arguments.summary()
        return event

    def listen(self, kind: str) -> Stream:
        del kind  # the answer is what counts, not what carries it
        self._ends_with_answer = True
        self.run.opened(lines=self.spec.lines)
        return self.run

    def adopt_thread(self, thread: str) -> None:
        """The agent says which thread it is: the session of everything that is told from now on."""
        session = check("session_id", thread)
        if session is not None:
            self.execution.session_id = session
            self._identify(self.execution, self.execution.request_id)

    def answered(self) -> None:
        """The last frame has come."""
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
        with _guard.Guard("sse"):
            # What is read now may be the end itself, where the last frame was no plain token.
            self.run.settle()
        if self._has_ended:
            with _guard.Guard("sse"):
                self.detach()
            return True
        self._has_ended = True
        return False

    def _ended(self, event: dict[str, Any], status: str, milliseconds: int) -> None:
        super()._ended(event, status, milliseconds)
        event.update(self.run.fields())


RUN: Final = "sse_run"
"""Where an execution keeps what its frames have said, for the streams that are opened inside."""


class StreamSpec(StepSpec):
    """One of the streams of an execution that is opened several times."""

    __slots__ = ("_around", "_run", "lines")

    def __init__(self, run: SseRun, around: SseScope) -> None:
        super().__init__("sse_stream", step_type="stream", ids={}, inputs={})
        self._run = run
        self._around = around
        self.lines: bool | None = None

    def open(self, recorder: Recorder, arguments: Arguments) -> Scope:
        del arguments  # of the method that gives the stream
        self._run.opened(lines=self.lines)
        with inside(self._around):
            scope = StreamScope(recorder, self, Arguments((), 0, (), {}))
        scope.run = self._run
        scope.number = self._run.streams
        return scope


class StreamScope(StepScope):
    """One stream of several. That it is no longer read once the answer is there is no cancellation."""

    __slots__ = ("number", "run")

    run: SseRun
    number: int

    def listen(self, kind: str) -> Stream:
        return _Part(kind, self.run, captures=self.captures)

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

    def about(self, status: str, milliseconds: int) -> dict[str, Any]:
        return {**super().about(status, milliseconds), "stream_number": self.number}


class _Part(Stream):
    """The items of one stream, which the execution reads as well."""

    def __init__(self, kind: str, run: SseRun, *, captures: bool) -> None:
        super().__init__(kind, captures=captures)
        self._run = run

    def add(self, item: Any) -> None:
        super().add(item)
        self._run.add(item)


def spec_of_block(notes: Mapping[str, Any]) -> Spec | None:
    """The spec for a stream inside an execution of an SSE agent; null where there is none."""
    found = notes.get(RUN)
    return None if found is None else StreamSpec(*found)
