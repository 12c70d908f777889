"""Where we are: the execution that is current here, the trace it belongs to, the run around it.

Context variables carry it, so it follows `await`, tasks and threads that copy the context.
"""

import threading
from contextvars import ContextVar, Token
from typing import Any, Final, Literal

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from tracereel import _values
from tracereel._guard import Guard, log

Kind = Literal["agent", "pipeline"]

_current: ContextVar["Execution | None"] = ContextVar("tracereel_execution", default=None)

_RATIOS: Final = frozenset({"confidence"})
_COUNTS: Final = frozenset({"llm_tokens_used", "llm_prompt_tokens", "llm_completion_tokens"})
_REALS: Final = frozenset({"llm_cost_usd", "llm_duration_seconds"})


class Trace:
    """One trace as this process sees it: its ids, and how many events it has recorded for it.

    `emitter_id` and `recorded` belong to the spool, which changes them under its lock.
    """

    __slots__ = ("emitter_id", "recorded", "request_id", "trace_id")

    def __init__(self, trace_id: str, request_id: str) -> None:
        self.trace_id = trace_id
        self.request_id = request_id
        self.emitter_id: str | None = None
        self.recorded = 0


class Tally:
    """Counts of the agents inside a pipeline; also adds to the pipelines around it."""

    __slots__ = ("_around", "_lock", "executed", "failed", "retried", "succeeded")

    def __init__(self, around: "Tally | None") -> None:
        self._around = around
        self._lock = threading.Lock()
        self.executed = 0
        self.succeeded = 0
        self.failed = 0
        self.retried = 0

    def add(
        self, *, executed: int = 0, succeeded: int = 0, failed: int = 0, retried: int = 0
    ) -> None:
        """Count agents here and in every pipeline around."""
        tally: Tally | None = self
        while tally is not None:
            with tally._lock:  # noqa: SLF001
                tally.executed += executed
                tally.succeeded += succeeded
                tally.failed += failed
                tally.retried += retried
            tally = tally._around  # noqa: SLF001


class Execution:
    """A running agent or pipeline; `current_execution()` gives it to the code inside."""

    __slots__ = (
        "execution_id",
        "kind",
        "name",
        "notes",
        "otel_trace_id",
        "parent",
        "parent_span_id",
        "span",
        "span_id",
        "tally",
        "trace",
    )

    def __init__(
        self,
        *,
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
    ) -> None:
        self.kind = kind
        self.name = name
        self.trace = trace
        self.execution_id = execution_id
        self.span = span
        self.otel_trace_id = otel_trace_id
        self.span_id = span_id
        self.parent_span_id = parent_span_id
        self.parent = parent
        self.tally = tally
        self.notes: dict[str, Any] = {}

    @property
    def trace_id(self) -> str:
        """The trace all events of this run carry."""
        return self.trace.trace_id

    @property
    def request_id(self) -> str:
        """The request this run answers."""
        return self.trace.request_id

    def set(
        self,
        *,
        confidence: float | None = None,
        reasoning: str | None = None,
        decision_type: str | None = None,
        llm_tokens_used: int | None = None,
        llm_prompt_tokens: int | None = None,
        llm_completion_tokens: int | None = None,
        llm_cost_usd: float | None = None,
        llm_duration_seconds: float | None = None,
        stage: str | None = None,
        outcome: str | None = None,
        error_code: str | None = None,
    ) -> None:
        """Say what is known of this execution; the closing event carries it. Later values win.

        A value that cannot be (a confidence of 7) is left out, not raised.
        """
        given = {
            "confidence": confidence,
            "reasoning": reasoning,
            "decision_type": decision_type,
            "llm_tokens_used": llm_tokens_used,
            "llm_prompt_tokens": llm_prompt_tokens,
            "llm_completion_tokens": llm_completion_tokens,
            "llm_cost_usd": llm_cost_usd,
            "llm_duration_seconds": llm_duration_seconds,
            "stage": stage,
            "outcome": outcome,
            "error_code": error_code,
        }
        with Guard("set"):
            for name, value in given.items():
                if value is not None:
                    self._note(name, value)

    def _note(self, name: str, value: object) -> None:
        usable: object
        if name in _RATIOS:
            usable = _values.ratio(value)
        elif name in _COUNTS:
            usable = _values.count(value)
        elif name in _REALS:
            usable = _values.real(value)
        elif name == "reasoning":
            usable = _values.label(value, _values.TEXT_LIMIT)
        else:
            usable = _values.label(value)
        if usable is None:
            log.debug("tracereel: a value of %s was left out: it cannot be used", name)
            return
        self.notes[name] = usable


def current_execution() -> Execution | None:
    """The innermost traced agent or pipeline around the caller, if there is one."""
    return _current.get()


Attachment = tuple[Token[Execution | None], Token[Context]]


def attach(execution: Execution, context: Context) -> Attachment:
    """Make an execution and the context with its span current."""
    return _current.set(execution), otel_context.attach(context)


def detach(attachment: Attachment) -> None:
    """Restore what was current before.

    A coroutine may be closed from another context than the one it ran in: then there is nothing to
    restore here, and OpenTelemetry must not be asked, because it would log an error.
    """
    ours, theirs = attachment
    try:
        _current.reset(ours)
    except ValueError:
        return
    otel_context.detach(theirs)
