"""Runs of a framework that reports them by id: their parents and scopes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tracereel._core import context, framework_entries
from tracereel._core import recorder as _recorder
from tracereel._core.context import Execution
from tracereel._core.executions.agent import AgentSpec
from tracereel._core.executions.arguments import Arguments, given
from tracereel._core.executions.calls import ToolSpec
from tracereel._core.executions.scope import ExecutionScope, Spec
from tracereel._core.recorder import Recorder
from tracereel._core.tape_session import RUNS, Live
from tracereel._runtime import gevent_compat, guard
from tracereel.integrations._model_call import ModelCall
from tracereel.providers.base import StreamTimings, Usage
from tracereel.providers.reading import text

_OF_A_FRAMEWORK: Final = "of_a_framework"
"""Note on executions that are runs of a framework."""
MAX_RUNS: Final = 10_000
"""Runs in progress that are kept; beyond that the oldest is cancelled."""


class FailedToolError(Exception):
    """A tool failed, and its framework turned the error into a result."""


@dataclass(slots=True)
class FrameworkRun:
    """One run: a scope, a model call, or neither if it is not recorded itself."""

    parent: "FrameworkRun | None"
    name: str
    scope: ExecutionScope | None = None
    call: ModelCall | None = None
    inputs: Any = None
    output: Any = None
    session_id: str | None = None
    first_token: float | None = None
    tokens: int = 0
    last_token: float = 0.0
    longest_gap: float = 0.0
    taped: Live = RUNS
    """The run on its tape, if a call of the framework began it."""

    def begin_on_tape(self) -> None:
        """Begin the run on its tape, if a call of the framework begins it."""
        if self.scope is not None:
            with within(self):
                self.taped = framework_entries.begin(self.scope.execution)

    def line(self) -> "Iterator[FrameworkRun]":
        """Yield the run and the enclosing ones, innermost first."""
        run: FrameworkRun | None = self
        while run is not None:
            yield run
            run = run.parent

    @property
    def holder(self) -> ExecutionScope | None:
        """Nearest scope: of this run or an enclosing one."""
        return next((run.scope for run in self.line() if run.scope is not None), None)

    @property
    def execution(self) -> Execution | None:
        """Execution of the run, or the one that it is part of."""
        if self.call is not None:
            return self.call.execution
        return None if (holder := self.holder) is None else holder.execution

    def token(self) -> None:
        """Record the arrival of a stream chunk."""
        now = time.perf_counter()
        if self.first_token is None:
            self.first_token = now
        else:
            self.longest_gap = max(self.longest_gap, now - self.last_token)
        self.last_token = now
        self.tokens += 1

    def timings(self, usage: Usage | None) -> StreamTimings | None:
        """Return the timings of a streamed model call, or `None` if nothing was streamed."""
        call = self.call
        if call is None or self.first_token is None:
            return None
        call.streams()
        began = call.start_tick / 1e9
        gaps, since_first = self.tokens - 1, self.last_token - self.first_token
        rate = None
        if usage is not None and usage.output_tokens and since_first > 0:
            rate = usage.output_tokens / since_first
        return StreamTimings(
            first_token_seconds=self.first_token - began,
            duration_seconds=time.perf_counter() - began,
            longest_gap_seconds=self.longest_gap if gaps > 0 else None,
            mean_gap_seconds=since_first / gaps if gaps > 0 else None,
            token_chunks=self.tokens,
            tokens_per_second=rate,
        )


class FrameworkRuns:
    """Runs in progress; never raises into the framework."""

    def __init__(self) -> None:
        self._runs: dict[Any, FrameworkRun] = {}
        self._lock = gevent_compat.RLock()

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, identity: Any) -> FrameworkRun | None:
        """Return the run of an id while it is in progress, or `None`."""
        return self._runs.get(identity)

    def add(self, identity: Any, run: FrameworkRun) -> FrameworkRun:
        """Add a run that has begun."""
        given_up = None
        with self._lock:
            self._runs[identity] = run
            if len(self._runs) > MAX_RUNS:
                given_up = self._runs.pop(next(iter(self._runs)))
        if given_up is not None and given_up.scope is not None:
            given_up.scope.cancel()
        return run

    def end(self, identity: Any) -> FrameworkRun | None:
        """Remove and return a run that has ended, or `None` if it is unknown."""
        with self._lock:
            run = self._runs.pop(identity, None)
        if run is not None and run.scope is not None:
            tape = run.scope.recorder.tape
            if tape is not None:
                tape.ended_block(run.scope.execution, None)
        return run


@contextmanager
def within(run: FrameworkRun | None) -> Iterator[None]:
    """Make the scope of a parent run current."""
    scope = run.holder if run is not None else None
    # If the program has opened its own scope inside, that is the right parent.
    if scope is None or _is_inside(context.current_execution(), scope.execution):
        yield
        return
    attachment = context.attach(scope.execution, scope.span_context)
    try:
        yield
    finally:
        context.detach(attachment)


def _is_inside(execution: Execution | None, other: Execution) -> bool:
    """Return whether only the program's own scopes are between two executions.

    A framework's scope may be current although its run is over, so its runs are found by id
    instead.
    """
    while execution is not None and execution is not other:
        if _OF_A_FRAMEWORK in execution.notes:
            return False
        execution = execution.parent
    return execution is not None


def agent_spec(name: str, session_id: Any) -> AgentSpec:
    """Return the spec of a framework's agent."""
    return AgentSpec(
        name,
        version=None,
        llm_provider=None,
        llm_model=None,
        temperature=None,
        max_tokens=None,
        ids=given({"session_id": session_id}),
        inputs=None,
    )


def tool_spec(name: str, call_id: Any, *, kind: str = "function") -> ToolSpec:
    """Return the spec of a framework's tool."""
    return ToolSpec(name, tool_type=kind, tool_call_id=text(call_id), ids={}, inputs=None)


def enter_scope(spec: Spec, inputs: dict[str, Any]) -> ExecutionScope | None:
    """Open a scope and make it current; `None` if nothing is recorded."""

    def entered(recorder: Recorder) -> ExecutionScope:
        scope = spec.open(recorder, Arguments((), 0, (), inputs))
        scope.attach()
        return scope

    scope: ExecutionScope | None = recorded(entered, None)
    return scope


def open_scope(
    spec: Spec, parent: FrameworkRun | None, inputs: dict[str, Any]
) -> ExecutionScope | None:
    """Open the scope of a run inside its parent; `None` if nothing is recorded."""

    def opened(recorder: Recorder) -> ExecutionScope:
        return spec.open(recorder, Arguments((), 0, (), inputs))

    scope: ExecutionScope | None = recorded(opened, parent)
    if scope is not None:
        scope.execution.notes[_OF_A_FRAMEWORK] = True
    return scope


def recorded(make: Callable[[Recorder], Any], parent: FrameworkRun | None) -> Any:
    """Call `make` with the active recorder inside a run; `None` without one or on error."""
    recorder = _recorder.active()
    if recorder is None:
        return None
    try:
        with within(parent):
            return make(recorder)
    except Exception as error:  # noqa: BLE001
        guard.report("framework_run", error)
        return None
