"""The runs of a framework that tells of them by id: who began whom, and the scope of each."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tracereel import _context, _guard, _native, _recorder
from tracereel._context import Execution
from tracereel._recorder import Recorder
from tracereel._scopes.arguments import Arguments
from tracereel._scopes.base import Scope, Spec
from tracereel.integrations._model_call import ModelCall

_OF_A_FRAMEWORK: Final = "of_a_framework"
"""A note on executions that are runs of a framework."""
MAX_RUNS: Final = 10_000
"""Runs under way that are remembered; the oldest is given up beyond that, and ends as left."""


class FailedToolError(Exception):
    """A tool whose framework has turned its error into an answer."""


@dataclass(slots=True)
class Run:
    """One run: a scope, a model call, or neither where it only stands between others."""

    parent: "Run | None"
    name: str
    scope: Scope | None = None
    call: ModelCall | None = None
    inputs: Any = None
    session_id: str | None = None
    first_token: float | None = None
    tokens: int = 0
    last_token: float = 0.0
    longest_gap: float = 0.0

    @property
    def holder(self) -> "Run | None":
        """The nearest run with a scope: itself or around it."""
        run: Run | None = self
        while run is not None and run.scope is None:
            run = run.parent
        return run

    @property
    def execution(self) -> Execution | None:
        """The execution that the run is, or is part of."""
        if self.call is not None:
            return self.call.execution
        holder = self.holder
        return holder.scope.execution if holder is not None and holder.scope is not None else None

    def token(self) -> None:
        """A piece of a streamed answer has come."""
        now = time.perf_counter()
        if self.first_token is None:
            self.first_token = now
        else:
            self.longest_gap = max(self.longest_gap, now - self.last_token)
        self.last_token = now
        self.tokens += 1


class Runs:
    """The runs under way. Nothing here raises into the framework."""

    def __init__(self) -> None:
        self._runs: dict[Any, Run] = {}
        self._lock = _native.RLock()

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, identity: Any) -> Run | None:
        """The run of an id, while it is under way."""
        return self._runs.get(identity)

    def add(self, identity: Any, run: Run) -> Run:
        """A run has begun."""
        given_up = None
        with self._lock:
            self._runs[identity] = run
            if len(self._runs) > MAX_RUNS:
                given_up = self._runs.pop(next(iter(self._runs)))
        if given_up is not None and given_up.scope is not None:
            given_up.scope.cancel()
        return run

    def end(self, identity: Any) -> Run | None:
        """A run is over; null where nobody knows it."""
        with self._lock:
            run = self._runs.pop(identity, None)
        if run is not None and run.scope is not None:
            tape = run.scope.recorder.tape
            if tape is not None:
                tape.ended_block(run.scope.execution, None)
        return run


@contextmanager
def within(run: Run | None) -> Iterator[None]:
    """Make current the run that another one begins in, whatever the context here says."""
    holder = run.holder if run is not None else None
    if holder is None or holder.scope is None:
        yield
        return
    scope = holder.scope
    if _is_inside(_context.current_execution(), scope.execution):
        # The program has opened something of its own in there: that is where it happens.
        yield
        return
    attachment = _context.attach(scope.execution, scope.span_context)
    try:
        yield
    finally:
        _context.detach(attachment)


def _is_inside(execution: Execution | None, other: Execution) -> bool:
    """Whether there is nothing but the program's own between the two, from inside to outside.

    What a framework has opened is known by its runs: one that is current here may be over already.
    """
    while execution is not None and execution is not other:
        if _OF_A_FRAMEWORK in execution.notes:
            return False
        execution = execution.parent
    return execution is not None


def open_scope(spec: Spec, parent: Run | None, inputs: dict[str, Any]) -> Scope | None:
    """The scope of a run that begins in another; null where nothing is recorded."""

    def opened(recorder: Recorder) -> Scope:
        return spec.open(recorder, Arguments((), 0, (), inputs))

    scope: Scope | None = recorded(opened, parent)
    if scope is not None:
        scope.execution.notes[_OF_A_FRAMEWORK] = True
    return scope


def recorded(make: Callable[[Recorder], Any], parent: Run | None) -> Any:
    """What is made of a recorder within a run; null where there is none, or it fails."""
    recorder = _recorder.active()
    if recorder is None:
        return None
    try:
        with within(parent):
            return make(recorder)
    except Exception as error:  # noqa: BLE001
        _guard.report("framework_run", error)
        return None
