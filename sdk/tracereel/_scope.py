"""One traced call from begin to end: its span, its events, its place in the run.

The decorators wrap a call in a scope, then `complete` or `fail` it; sync and async share it all.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracereel import _context, _failures, _guard, _recorder, _spans, _values, semconv
from tracereel._clock import rfc3339, sortable_id
from tracereel._context import Attachment, Execution, Kind, Tally
from tracereel._recorder import Recorder

CANCELLATIONS: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)
"""Stopped from outside: not a failure of the agent."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call by the names their function has for them, without `self` or `cls`."""

    names: tuple[str, ...]
    skip: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __iter__(self) -> Iterator[tuple[str, object]]:
        for index in range(self.skip, len(self.args)):
            name = self.names[index] if index < len(self.names) else f"arg{index}"
            yield name, self.args[index]
        yield from self.kwargs.items()

    def find(self, *wanted: str) -> object:
        """The value of the first of these names that was given, or null."""
        given = dict(self)
        return next((given[name] for name in wanted if given.get(name) is not None), None)


class Scope:
    """A call being traced; made when it begins."""

    kind: Kind = "agent"
    operation = semconv.INVOKE_AGENT

    __slots__ = ("_arguments", "_attachment", "_recorder", "_start_ns", "_tick", "execution")

    def __init__(self, recorder: Recorder, name: str, arguments: Arguments) -> None:
        self._recorder = recorder
        self._arguments = arguments
        self._start_ns = time.time_ns()
        self._tick = time.perf_counter_ns()
        self._attachment: Attachment | None = None
        about = self.identity()
        execution_id = sortable_id("exe")
        parent = _context.current_execution()
        attributes = _spans.attributes_of({**about, "execution_id": execution_id})
        attributes[semconv.OPERATION] = self.operation
        started = recorder.spans.start(f"{self.operation} {name}", attributes, self._start_ns)
        trace = parent.trace if parent is not None else recorder.trace(started.otel_trace_id)
        around = parent.tally if parent is not None else None
        self.execution = Execution(
            kind=self.kind,
            name=name,
            trace=trace,
            execution_id=execution_id,
            span=started.span,
            otel_trace_id=started.otel_trace_id,
            span_id=started.span_id,
            parent_span_id=started.parent_span_id,
            parent=parent,
            tally=Tally(around) if self.kind == "pipeline" else around,
        )
        started.span.set_attributes(
            {semconv.SPAN_TRACE_ID: trace.trace_id, semconv.SPAN_REQUEST_ID: trace.request_id}
        )
        self._emit(self.opening(about), self._start_ns)
        self._attachment = _context.attach(self.execution, started.context)

    def identity(self) -> dict[str, Any]:
        """The fields that name what is called; the span starts with them."""
        raise NotImplementedError

    def opening(self, about: dict[str, Any]) -> dict[str, Any]:
        """The event of the beginning."""
        raise NotImplementedError

    def closing(self, result: object, milliseconds: int) -> dict[str, Any]:
        """The event of a call that returned."""
        raise NotImplementedError

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any]:
        """The event of a call that raised."""
        raise NotImplementedError

    def closing_cancelled(self, error: BaseException, milliseconds: int) -> dict[str, Any]:
        """The event of a call that was cancelled."""
        raise NotImplementedError

    def complete(self, result: object) -> None:
        """The call has returned."""
        with _guard.Guard("complete"):
            self._detach()
            end_ns, milliseconds, seconds = self._now()
            self._close(self.closing(result, milliseconds), None, end_ns, seconds)

    def fail(self, error: BaseException) -> None:
        """The call has raised; the caller raises it further, unchanged."""
        with _guard.Guard("fail"):
            self._detach()
            end_ns, milliseconds, seconds = self._now()
            if isinstance(error, CANCELLATIONS):
                event = self.closing_cancelled(error, milliseconds)
            else:
                event = self.closing_failed(error, milliseconds)
            self._close(event, error, end_ns, seconds)

    @property
    def captures(self) -> bool:
        """Whether what goes in and out may be recorded."""
        return self._recorder.config.capture_content

    def _detach(self) -> None:
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            _context.detach(attachment)

    def _now(self) -> tuple[int, int, float]:
        # The end is the start plus elapsed time: a wall clock set meanwhile changes nothing.
        elapsed = time.perf_counter_ns() - self._tick
        return self._start_ns + elapsed, elapsed // 1_000_000, elapsed / 1e9

    def _close(
        self, event: dict[str, Any], error: BaseException | None, end_ns: int, seconds: float
    ) -> None:
        execution = self.execution
        event["span_name"] = f"{self.operation} {execution.name}"
        event["span_start_unix_nano"] = self._start_ns
        event["span_end_unix_nano"] = end_ns
        failed = error is not None and not isinstance(error, CANCELLATIONS)
        with _guard.Guard("span"):
            _spans.finish(execution.span, event, error, end_ns=end_ns, failed=failed)
        self._emit(event, end_ns, closes_run=execution.parent is None, seconds=seconds)

    def _emit(
        self,
        event: dict[str, Any],
        now_ns: int,
        *,
        closes_run: bool = False,
        seconds: float | None = None,
    ) -> None:
        recorder = self._recorder
        if recorder.closed:
            # Configured anew while this call ran: its end belongs to the recorder of now.
            recorder = _recorder.active() or recorder
        recorder.record(
            envelope(event, self.execution, recorder, now_ns),
            self.execution.trace,
            closes_run=closes_run,
            seconds=seconds,
        )


def envelope(
    event: dict[str, Any], execution: Execution, recorder: Recorder, now_ns: int
) -> dict[str, Any]:
    """An event with what every event carries; the spool adds the numbers."""
    return {
        "event_id": sortable_id("evt"),
        "event_type": event.pop("event_type"),
        "event_version": semconv.EVENT_VERSION,
        "timestamp": rfc3339(now_ns),
        "trace_id": execution.trace_id,
        "otel_trace_id": execution.otel_trace_id,
        "span_id": execution.span_id,
        "parent_span_id": execution.parent_span_id,
        "service": recorder.config.service,
        "execution_id": execution.execution_id,
        **event,
    }


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """What `traced_agent` was given."""

    name: str
    version: str | None
    llm_provider: str | None
    llm_model: str | None
    temperature: float | None
    max_tokens: int | None


class AgentScope(Scope):
    """A call of an agent."""

    __slots__ = ("_spec",)

    def __init__(self, recorder: Recorder, spec: AgentSpec, arguments: Arguments) -> None:
        self._spec = spec
        super().__init__(recorder, spec.name, arguments)
        if (tally := self.execution.tally) is not None:
            tally.add(executed=1)

    def identity(self) -> dict[str, Any]:
        spec = self._spec
        return {
            "agent_name": spec.name,
            "agent_version": spec.version,
            "llm_provider": spec.llm_provider,
            "llm_model": spec.llm_model,
            "temperature": spec.temperature,
            "max_tokens": spec.max_tokens,
        }

    def opening(self, about: dict[str, Any]) -> dict[str, Any]:
        given = list(self._arguments)
        return {
            "event_type": semconv.EXECUTION_STARTED,
            "request_id": self.execution.request_id,
            "parent_trace_id": None,
            "input_type": _values.type_name(given[0][1] if given else None),
            "input_summary": _values.call_summary(given) if self.captures else "",
            "input_size_bytes": sum(_values.size(value) for _, value in given),
            **about,
        }

    def closing(self, result: object, milliseconds: int) -> dict[str, Any]:
        if self.execution.tally is not None:
            self.execution.tally.add(succeeded=1)
        note = self.execution.notes.get
        self._observe_llm()
        return {
            "event_type": semconv.EXECUTION_COMPLETED,
            "agent_name": self._spec.name,
            "agent_version": self._spec.version,
            "request_id": self.execution.request_id,
            "execution_time_ms": milliseconds,
            "execution_time_seconds": milliseconds / 1000,
            "output_type": _values.type_name(result),
            "output_summary": _values.summary(result) if self.captures else "",
            "output_size_bytes": _values.size(result),
            "confidence": note("confidence"),
            "decision_type": note("decision_type"),
            "reasoning": note("reasoning"),
            "stage": note("stage"),
            "llm_tokens_used": note("llm_tokens_used"),
            "llm_prompt_tokens": note("llm_prompt_tokens"),
            "llm_completion_tokens": note("llm_completion_tokens"),
            "llm_cost_usd": note("llm_cost_usd"),
            "was_retried": False,
            "retry_count": 0,
            "fallback_used": False,
        }

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any]:
        if self.execution.tally is not None:
            self.execution.tally.add(failed=1)
        note = self.execution.notes.get
        failure = _failures.describe(error)
        self._observe_llm()
        return {
            "event_type": semconv.EXECUTION_FAILED,
            "agent_name": self._spec.name,
            "agent_version": self._spec.version,
            "request_id": self.execution.request_id,
            "error_type": failure.error_type,
            "error_message": failure.error_message,
            "error_code": note("error_code") or failure.error_code,
            "error_category": failure.error_category,
            "stage": note("stage"),
            "input_at_error": _values.plain_dict(dict(self._arguments)) if self.captures else None,
            "partial_output": None,
            "stack_trace": _failures.stack_trace(error),
            "was_retried": False,
            "retry_count": 0,
            "max_retries_reached": False,
            "fallback_attempted": False,
            "fallback_successful": None,
            "execution_time_before_failure_ms": milliseconds,
        }

    def closing_cancelled(self, error: BaseException, milliseconds: int) -> dict[str, Any]:
        return {
            "event_type": semconv.EXECUTION_CANCELLED,
            "agent_name": self._spec.name,
            "agent_version": self._spec.version,
            "request_id": self.execution.request_id,
            "cancel_reason": _values.type_name(error),
            "stage": self.execution.notes.get("stage"),
            "partial_output": None,
            "was_retried": False,
            "retry_count": 0,
            "execution_time_before_cancel_ms": milliseconds,
        }

    def _observe_llm(self) -> None:
        seconds = self.execution.notes.get("llm_duration_seconds")
        if seconds is not None:
            self._recorder.metrics.observe_llm(self._spec.llm_provider, seconds)


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """What `traced_pipeline` was given."""

    pipeline_type: str
    agents: tuple[str, ...] | None


class PipelineScope(Scope):
    """A run of a pipeline."""

    kind: Kind = "pipeline"
    operation = semconv.INVOKE_WORKFLOW

    __slots__ = ("_spec",)

    def __init__(self, recorder: Recorder, spec: PipelineSpec, arguments: Arguments) -> None:
        self._spec = spec
        super().__init__(recorder, spec.pipeline_type, arguments)

    def identity(self) -> dict[str, Any]:
        return {"pipeline_type": self._spec.pipeline_type}

    def opening(self, about: dict[str, Any]) -> dict[str, Any]:
        find, agents = self._arguments.find, self._spec.agents
        prompt = find("user_prompt", "prompt") if self.captures else None
        return {
            "event_type": semconv.PIPELINE_STARTED,
            "request_id": self.execution.request_id,
            **about,
            "agent_sequence": list(agents) if agents is not None else None,
            "sequence_length": len(agents) if agents is not None else None,
            "user_prompt": _values.label(prompt, _values.TEXT_LIMIT),
            "user_timezone": _values.label(find("user_timezone", "timezone")),
            "user_id": _values.label(find("user_id")),
        }

    def closing(self, result: object, milliseconds: int) -> dict[str, Any]:
        tally = self.execution.tally
        partial = tally is not None and tally.failed > 0
        status = semconv.PARTIAL_SUCCESS if partial else semconv.SUCCESS
        return self._closed(status, milliseconds) | {
            "output_summary": _values.summary(result) if self.captures else None
        }

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any]:
        failure = _failures.describe(error)
        return self._closed(semconv.FAILED, milliseconds) | {
            "error_type": failure.error_type,
            "error_message": failure.error_message,
        }

    def closing_cancelled(self, error: BaseException, milliseconds: int) -> dict[str, Any]:
        return self._closed(semconv.CANCELLED, milliseconds) | {
            "cancel_reason": _values.type_name(error)
        }

    def _closed(self, status: str, milliseconds: int) -> dict[str, Any]:
        note, tally = self.execution.notes.get, self.execution.tally or Tally(None)
        return {
            "event_type": semconv.PIPELINE_COMPLETED,
            "request_id": self.execution.request_id,
            "pipeline_type": self._spec.pipeline_type,
            "status": status,
            "final_outcome": note("outcome"),
            "total_execution_time_ms": milliseconds,
            "agents_executed": tally.executed,
            "agents_succeeded": tally.succeeded,
            "agents_failed": tally.failed,
            "agents_retried": tally.retried,
            "output_summary": None,
            "final_confidence": note("confidence"),
        }
