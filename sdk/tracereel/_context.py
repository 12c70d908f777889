"""Where we are: the execution that is current here, the trace it belongs to, the run around it.

Context variables carry it, so it follows `await`, tasks and threads that copy the context.
"""

import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from typing import Any, Final, Literal, Unpack

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN

from tracereel import _notes, _values
from tracereel._guard import Guard, by_signal, log
from tracereel._notes import Notes
from tracereel._run import Ended, State, Tally, Trace, Usage
from tracereel.resilience import _slots

__all__ = [
    "Execution",
    "Tally",
    "Trace",
    "Usage",
    "attach",
    "current_execution",
    "detach",
    "here",
]

Kind = Literal["agent", "pipeline", "llm", "tool", "step", "retrieval"]

_current: ContextVar["Execution | None"] = ContextVar("tracereel_execution", default=None)

Emitter = Callable[["Execution", dict[str, Any]], None]
"""Puts the envelope around an event of an execution and records it."""

_EXECUTIONS: Final = ("agent", "pipeline")


class Execution:
    """A running agent or pipeline, or a call inside one; `current_execution()` gives it to the code.

    Calls of models, tools, steps and retrievals share the `execution_id`, the numbering of events and
    the sums of the agent they happen in.

    `retry_count`, `max_retries_reached`, `fallback_used`, `fallback_attempted` and `attempt` are set
    by what retries or replaces the call; the closing event carries them.
    """

    __slots__ = (
        "_emitter",
        "attempt",
        "earlier",
        "ended",
        "fallback_attempted",
        "fallback_used",
        "kind",
        "max_retries_reached",
        "name",
        "notes",
        "otel_trace_id",
        "parent",
        "parent_span_id",
        "place",
        "repeats",
        "request_id",
        "retry_count",
        "session_id",
        "slot",
        "span",
        "span_id",
        "state",
        "tally",
        "tape",
        "trace",
        "user_id",
    )
    tape: Any
    """Its place on a tape that is recorded, and on one that is played; not set where there is none."""
    place: Any

    def __init__(
        self,
        kind: Kind,
        name: str,
        trace: Trace,
        execution_id: str,
        span: Any,
        otel_trace_id: str,
        span_id: str,
        parent_span_id: str | None,
        parent: "Execution | None",
        tally: Tally | None,
        emitter: Emitter,
        request_id: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.trace = trace
        self.span = span
        self.otel_trace_id = otel_trace_id
        self.span_id = span_id
        self.parent_span_id = parent_span_id
        self.parent = parent
        self.tally = tally
        self.notes: dict[str, Any] = {}
        self._emitter = emitter
        self.retry_count = 0
        self.max_retries_reached = False
        self.fallback_used = False
        self.fallback_attempted = False
        self.attempt: int | None = None
        self.earlier = 0
        """How many of the retries in `retry_count` were executions of their own, before this one."""
        self.ended = False
        self.repeats: Ended | None = None
        self.slot: _slots.Slot | None = None
        if parent is None:
            self.state = State(execution_id)
            self.request_id = request_id or trace.request_id
            self.session_id = session_id
            self.user_id = user_id
        else:
            same = parent.state.execution_id == execution_id
            self.state = parent.state if same else State(execution_id)
            # A run of its own inside another one may still answer the same request.
            self.request_id = request_id or parent.request_id
            self.session_id = session_id or parent.session_id
            self.user_id = user_id or parent.user_id

    def __bool__(self) -> bool:
        """False for the stand-in that is handed out where nothing is being recorded."""
        return self is not _NOWHERE

    @property
    def execution_id(self) -> str:
        """The execution that all events from here belong to."""
        return self.state.execution_id

    @property
    def trace_id(self) -> str:
        """The trace all events of this run carry."""
        return self.trace.trace_id

    def goes_on(self) -> bool:
        """Whether this call, or one around it in its run, has not ended: it has an end to tell."""
        execution: Execution | None = self
        while execution is not None and execution.trace is self.trace:
            if not execution.ended:
                return True
            execution = execution.parent
        return False

    @property
    def agent(self) -> "Execution":
        """The nearest agent or pipeline: itself, or the one around this call."""
        execution = self
        while execution.kind not in _EXECUTIONS and execution.parent is not None:
            execution = execution.parent
        return execution

    @property
    def round_number(self) -> int:
        """How many rounds of the agent's loop have begun."""
        return self.state.rounds

    def set(self, **notes: Unpack[Notes]) -> None:
        """Say what is known of this execution; the closing event carries it. Later values win.

        Inside a call of a model, tool, step or retrieval, what is not about the call itself is noted
        on the agent around it. A value that cannot be (a confidence of 7) is left out, not raised.
        """
        with Guard("set"):
            own = _notes.OF_CALLS.get(self.kind)
            given: dict[str, Any] = notes  # type: ignore[assignment]
            for name, value in given.items():
                if value is None or self is _NOWHERE:
                    continue
                check = _notes.CHECKS.get(name)
                usable = check(value) if check is not None else None
                if usable is None:
                    log.debug("tracereel: a value of %s was left out: it cannot be used", name)
                    continue
                target = self if own is None or name in own else self.agent
                target.notes[name] = usable

    def set_output(self, value: object) -> None:
        """Say what a `with` block results in; a decorated function's is what it returns."""
        with Guard("set"):
            if self is not _NOWHERE:
                summary = _values.summary(value)
                self.notes["output"] = (_values.type_name(value), summary, _values.size(value))

    def add_usage(
        self,
        *,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        total_tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Add tokens and cost of one more call of a model that is not traced itself."""
        with Guard("usage"):
            if self is not _NOWHERE:
                cost = _values.real(cost_usd)
                self.state.add_usage(
                    _values.count(prompt_tokens),
                    _values.count(completion_tokens),
                    _values.count(total_tokens),
                    cost,
                )
                _slots.spend(self.state, cost)

    def round(self, *, limit: int | None = None) -> None:
        """Say that a round of the agent's loop begins, and how many are allowed at most.

        One more than allowed is not a round: the closing event then says `ITERATION_LIMIT_REACHED`.
        """
        with Guard("round"):
            if self is not _NOWHERE:
                self.state.begin_round(_values.count(limit))

    def rounds(self, *, limit: int | None = None) -> Iterator[int]:
        """The numbers of the rounds from 1 on: `for number in execution.rounds(limit=10): ...`.

        Counts by itself, so that the loop ends at the limit also where nothing is recorded.
        """
        for number in itertools.count(1):
            self.round(limit=limit)
            if limit is not None and number > limit:
                return
            yield number

    def emit(self, event: dict[str, Any]) -> None:
        """Record an event (its type and its own fields) within this execution; never raises."""
        with Guard("emit"):
            self._emitter(self, event)


def current_execution() -> Execution | None:
    """The innermost traced call around the caller, if there is one."""
    return _current.get()


def here() -> Execution:
    """The innermost traced call around the caller.

    Outside of every traced call, or with recording off, a stand-in that takes everything, keeps
    nothing, and is false: `current_execution().set(confidence=0.9)` is safe everywhere.
    """
    return _current.get() or _NOWHERE


Attachment = tuple[Token[Execution | None], Context]
"""How to restore what was current; OpenTelemetry's context by its value, because its `detach` swallows
what a signal handler raises in there."""


def attach(execution: Execution, context: Context) -> Attachment:
    """Make an execution and the context with its span current."""
    before, around = _current.get(), otel_context.get_current()
    try:
        attachment = _current.set(execution), around
        otel_context.attach(context)
    except BaseException:
        # A signal handler raised in between, and the token is lost.
        _current.set(before)
        otel_context.attach(around)
        raise
    return attachment


def detach(attachment: Attachment) -> None:
    """Restore what was current before.

    A coroutine may be closed from another context than the one it ran in: then there is nothing to
    restore here.
    """
    ours, around = attachment
    try:
        _current.reset(ours)
    except BaseException as error:
        interrupted = by_signal(error)
        if isinstance(error, ValueError) and not interrupted:
            return
        otel_context.attach(around)
        if isinstance(error, RuntimeError) and not interrupted:
            return  # done before, when an interruption kept the rest from being done
        raise
    otel_context.attach(around)


def _nobody(_execution: Execution, _event: dict[str, Any]) -> None:
    """The emitter of the stand-in."""


_NOWHERE: Final = Execution(
    kind="agent",
    name="",
    trace=Trace("", ""),
    execution_id="",
    span=INVALID_SPAN,
    otel_trace_id="0" * 32,
    span_id="0" * 16,
    parent_span_id=None,
    parent=None,
    tally=None,
    emitter=_nobody,
)
