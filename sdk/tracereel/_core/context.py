"""Current execution, kept in context variables.

It follows `await`, tasks, and threads that copy the context.
"""

import itertools
from collections.abc import Iterator
from contextvars import ContextVar, Token
from typing import Any, Final, Literal, Unpack

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN

from tracereel._core import attempt_context, envelope, execution_fields
from tracereel._core import recorder as _recorder
from tracereel._core.execution_fields import ExecutionFields
from tracereel._core.executions.arguments import Arguments
from tracereel._core.listeners import Listener, check_listener
from tracereel._core.run_state import Emitted, Ended, ExecutionState, Tally
from tracereel._export.trace_state import TraceState
from tracereel._redact import values
from tracereel._runtime.guard import Guard, by_signal, log
from tracereel._telemetry.spans import StartedSpan

Kind = Literal["agent", "pipeline", "llm", "tool", "step", "retrieval"]

current: Final[ContextVar["Execution | None"]] = ContextVar("tracereel_execution", default=None)
"""Innermost traced call."""

_EXECUTIONS: Final = ("agent", "pipeline")


class Execution:
    """Running agent or pipeline, or a call inside one; returned by `current_execution()`.

    Calls of models, tools, steps and retrievals share the `execution_id`, the event numbers and the sums
    of their agent.

    Retries and fallbacks set `retry_count`, `max_retries_reached`, `fallback_used`, `fallback_attempted`,
    `fallback_successful` and `attempt`; the closing event includes them.
    """

    __slots__ = (
        "arguments",
        "attempt",
        "earlier",
        "ended",
        "fallback_attempted",
        "fallback_successful",
        "fallback_used",
        "kind",
        "listeners",
        "max_retries_reached",
        "module",
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
    """State on the recorded tape; `place` is the position on a replayed one. Unset without a tape."""
    place: Any

    def __init__(
        self,
        kind: Kind,
        name: str,
        trace: TraceState,
        execution_id: str,
        started: StartedSpan,
        parent: "Execution | None" = None,
        tally: Tally | None = None,
        request_id: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.trace = trace
        self.span, self.otel_trace_id, self.span_id, self.parent_span_id, _, _ = started
        self.parent = parent
        self.tally = tally
        self.notes: dict[str, Any] = {}
        self.arguments: Arguments | None = None
        """Arguments of the call until it ends."""
        self.retry_count = 0
        self.max_retries_reached = False
        self.fallback_used = False
        self.fallback_attempted = False
        self.fallback_successful: bool | None = None
        """Outcome of the last fallback inside."""
        self.attempt: int | None = None
        self.earlier = 0
        """Part of `retry_count` that were separate executions before this one."""
        self.ended = False
        self.repeats: Ended | None = None
        self.slot: attempt_context.Slot | None = None
        self.listeners: tuple[Listener, ...] = () if parent is None else parent.listeners
        self.module: str | None = None if parent is None else parent.module
        """Module of the traced code, after which log lines are named."""
        if parent is None:
            self.state = ExecutionState(execution_id)
            self.request_id = request_id or trace.request_id
            self.session_id = session_id
            self.user_id = user_id
        else:
            same = parent.state.execution_id == execution_id
            self.state = parent.state if same else ExecutionState(execution_id)
            # A nested run may belong to the same request.
            self.request_id = request_id or parent.request_id
            self.session_id = session_id or parent.session_id
            self.user_id = user_id or parent.user_id

    def __bool__(self) -> bool:
        """Return False for the placeholder that is used when nothing is recorded."""
        return self is not _NOWHERE

    @property
    def execution_id(self) -> str:
        """Id of the execution that events from here belong to."""
        return self.state.execution_id

    @property
    def trace_id(self) -> str:
        """Trace id of all events of this run."""
        return self.trace.trace_id

    def continues(self) -> bool:
        """Return whether this call or an enclosing one of the run has not ended."""
        execution: Execution | None = self
        while execution is not None and execution.trace is self.trace:
            if not execution.ended:
                return True
            execution = execution.parent
        return False

    @property
    def agent(self) -> "Execution":
        """Nearest agent or pipeline: this execution or an enclosing one."""
        execution = self
        while execution.kind not in _EXECUTIONS and execution.parent is not None:
            execution = execution.parent
        return execution

    @property
    def agent_name(self) -> str | None:
        """Name of the nearest agent; `None` if there is only a pipeline or a call."""
        agent = self.agent
        return agent.name if agent.kind == "agent" else None

    @property
    def round_number(self) -> int:
        """Number of rounds that the agent loop has begun."""
        return self.state.rounds

    def set(self, **notes: Unpack[ExecutionFields]) -> None:
        """Set fields of the closing event; later values win.

        Inside a call of a model, tool, step or retrieval, fields that are not about the call are set on the
        enclosing agent. Invalid values (a confidence of 7) are ignored.
        """
        with Guard("set"):
            own = execution_fields.OF_CALLS.get(self.kind)
            given: dict[str, Any] = notes  # type: ignore[assignment]
            for name, value in given.items():
                if value is None or self is _NOWHERE:
                    continue
                usable: Any = None
                if name in execution_fields.LISTS:
                    if (recorder := _recorder.active()) is not None:
                        usable = recorder.content.messages(value)
                elif (check := execution_fields.CHECKS.get(name)) is not None:
                    usable = check(value)
                if usable is None:
                    log.debug("tracereel: a value of %s was left out: it cannot be used", name)
                    continue
                target = self if own is None or name in own else self.agent
                target.notes[name] = usable
                if target is not self and name.startswith("llm_"):
                    self._used("set", {name: usable})

    def set_output(self, value: object) -> None:
        """Set the output of a `with` block; decorated functions use their return value."""
        with Guard("set"):
            if self is not _NOWHERE and (recorder := _recorder.active()) is not None:
                self.notes["result"] = recorder.results.read(value)
                described = recorder.content.described(value)
                self.notes["output"] = values.type_name(value), described

    def on_event(self, listener: Listener) -> None:
        """Call a function with each further event of this execution and of those inside.

        Raises:
            TypeError: the listener is not a function, or is a coroutine function.
        """
        check_listener(listener)
        if self is not _NOWHERE:
            self.listeners += (listener,)

    def add_usage(
        self,
        *,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        total_tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Add tokens and cost of a model call that is not traced."""
        with Guard("usage"):
            if self is not _NOWHERE:
                count, cost = values.count, values.real(cost_usd)
                usage = count(prompt_tokens), count(completion_tokens), count(total_tokens), cost
                self.state.add_usage(usage)
                attempt_context.spend(self.state, cost)
                names = "prompt_tokens", "completion_tokens", "total_tokens", "cost_usd"
                self._used("added", dict(zip(names, usage, strict=True)))

    def _used(self, way: Literal["added", "set"], usage: dict[str, Any]) -> None:
        """Record usage on the tape; a replay that serves a call around this one repeats it."""
        recorder = _recorder.active()
        if recorder is not None and recorder.tape is not None:
            recorder.tape.used(self, way, usage)

    def round(self, *, limit: int | None = None) -> None:
        """Count a round of the agent loop, with an optional limit.

        A round beyond the limit is not counted; the closing event then has `ITERATION_LIMIT_REACHED`.
        """
        with Guard("round"):
            if self is not _NOWHERE:
                self.state.begin_round(values.count(limit))

    def rounds(self, *, limit: int | None = None) -> Iterator[int]:
        """Yield round numbers from 1: `for number in execution.rounds(limit=10): ...`.

        The loop ends at the limit even if nothing is recorded.
        """
        for number in itertools.count(1):
            self.round(limit=limit)
            if limit is not None and number > limit:
                return
            yield number

    def emit(
        self, event: dict[str, Any], *, wait: Literal["stored"] | None = None, timeout: float = 10.0
    ) -> Emitted:
        """Record an event (type and fields) in this execution; never raises.

        Return `spooled` if the event is on disk, `held` if it is in memory (a sampler decides later,
        or the disk fails), `dropped` if it is not recorded. With `wait="stored"`, wait up to
        `timeout` seconds for the collector's store and return `stored`, else as above.
        """
        with Guard("emit"):
            if self is not _NOWHERE:
                seconds = values.real(timeout) if wait == "stored" else None
                return envelope.emit(self, event, stored_within=seconds or 0)
        return "dropped"


def current_execution() -> Execution | None:
    """Return the innermost traced call, or `None`."""
    return current.get()


def here() -> Execution:
    """Return the innermost traced call, or a placeholder.

    The placeholder is used outside of traced calls and with recording off. It is false and ignores all
    calls, so `current_execution().set(confidence=0.9)` is safe everywhere.
    """
    return current.get() or _NOWHERE


Attachment = tuple[Token[Execution | None], Context]
"""State to restore. OpenTelemetry's context is stored by value, because its `detach` swallows
exceptions of signal handlers.
"""


def attach(execution: Execution, context: Context) -> Attachment:
    """Make an execution and the context of its span current."""
    before, around = current.get(), otel_context.get_current()
    try:
        attachment = current.set(execution), around
        otel_context.attach(context)
    except BaseException:
        # A signal handler raised in between, and the token is lost.
        current.set(before)
        otel_context.attach(around)
        raise
    return attachment


def detach(attachment: Attachment) -> None:
    """Restore the previous execution and context.

    There is nothing to restore if a coroutine is closed in another context than the one it ran in.
    """
    ours, around = attachment
    try:
        current.reset(ours)
    except BaseException as error:
        interrupted = by_signal(error)
        if isinstance(error, ValueError) and not interrupted:
            return
        otel_context.attach(around)
        if isinstance(error, RuntimeError) and not interrupted:
            return  # an interrupted `detach` already reset it
        raise
    otel_context.attach(around)


_NOWHERE: Final = Execution(
    "agent",
    "",
    TraceState("", ""),
    "",
    StartedSpan(INVALID_SPAN, "0" * 32, "0" * 16, None, Context(), records=False),
)
