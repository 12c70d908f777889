"""Scope of a pipeline run: a started event, and a completed one with agent counts."""

from collections.abc import Iterable
from typing import Any

from tracereel import semconv
from tracereel._core import error_details
from tracereel._core.context import Tally
from tracereel._core.executions.arguments import Arguments, Ids
from tracereel._core.executions.scope import ExecutionScope, Spec
from tracereel._core.recorder import Recorder
from tracereel._redact import values


class PipelineSpec(Spec):
    """Options of `traced_pipeline`."""

    __slots__ = ("agents",)

    def __init__(
        self, pipeline_type: str, *, agents: Iterable[str] | None, ids: Ids, inputs: Any
    ) -> None:
        self.agents = None if agents is None else [values.label(name) or "" for name in agents]
        super().__init__(
            pipeline_type,
            verb=semconv.INVOKE_WORKFLOW,
            named="pipeline_type",
            about={"operation": semconv.INVOKE_WORKFLOW, "pipeline_type": pipeline_type},
            ids=ids,
            inputs=inputs,
        )

    def open(self, recorder: Recorder, arguments: Arguments) -> ExecutionScope:
        return PipelineScope(recorder, self, arguments)


class PipelineScope(ExecutionScope):
    """A run of a pipeline."""

    kind = "pipeline"
    adopts = True
    spec: PipelineSpec

    __slots__ = ()

    def opening(self) -> dict[str, Any]:
        find, agents, execution = self.arguments.find, self.spec.agents, self.execution
        prompt = find("user_prompt", "prompt") if self.captures else None
        return {
            "event_type": semconv.PIPELINE_STARTED,
            "request_id": execution.request_id,
            "parent_trace_id": self.parent_trace_id,
            "pipeline_type": self.spec.name,
            "agent_sequence": agents,
            "sequence_length": len(agents) if agents is not None else None,
            "user_prompt": values.label(prompt, values.TEXT_LIMIT),
            "user_timezone": values.label(find("user_timezone", "timezone")),
            "user_id": execution.user_id or values.label(find("user_id")),
        }

    def closing(self, result: object, milliseconds: int) -> dict[str, Any]:
        tally, note = self.execution.tally, self.execution.notes.get
        partial = tally is not None and tally.failed > 0
        status = note("status") or (semconv.PARTIAL_SUCCESS if partial else semconv.SUCCESS)
        event = self._closed(status, milliseconds)
        if self.captures:
            if self.stream is not None:
                event["output_summary"] = self.stream.summary()
            elif (said := note("output")) is not None:
                event["output_summary"] = said[1]
            else:
                event["output_summary"] = values.summary(result)
        return event

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any]:
        failure, stage, origin = self.describe(error)
        event = self._closed(semconv.FAILED, milliseconds)
        event["error_type"] = failure.error_type
        event["error_message"] = failure.error_message
        event["error_code"] = self.execution.notes.get("error_code") or failure.error_code
        event["error_category"] = failure.error_category
        event["stage"] = stage
        event["stack_trace"] = error_details.stack_trace(error)
        event["timeout_seconds"] = (
            self.execution.notes.get("timeout_seconds") or failure.timeout_seconds
        )
        event["propagated"] = origin is not None
        event["origin_execution_id"] = origin
        return event

    def closing_cancelled(self, error: BaseException | None, milliseconds: int) -> dict[str, Any]:
        event = self._closed(semconv.CANCELLED, milliseconds)
        event["cancel_reason"] = values.type_name(error) if error is not None else "GeneratorExit"
        return event

    def _closed(self, status: str, milliseconds: int) -> dict[str, Any]:
        execution = self.execution
        note, tally = execution.notes.get, execution.tally or Tally(None)
        if (own := execution.state.usage) is not None:
            tally.add_usage(own)
        return {
            "event_type": semconv.PIPELINE_COMPLETED,
            "request_id": execution.request_id,
            "pipeline_type": self.spec.name,
            "status": status,
            "final_outcome": note("outcome"),
            "total_execution_time_ms": milliseconds,
            "agents_executed": tally.executed,
            "agents_succeeded": tally.succeeded,
            "agents_failed": tally.failed,
            "agents_cancelled": tally.cancelled,
            "agents_retried": tally.retried,
            "agent_results": list(tally.results),
            "output_summary": None,
            "final_confidence": note("confidence"),
            "total_llm_tokens": tally.usage.total,
            "total_llm_cost_usd": tally.usage.cost,
        }
