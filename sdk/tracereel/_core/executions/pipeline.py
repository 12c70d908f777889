"""Scope of a pipeline run: a started event, and a completed one with agent counts."""

from collections.abc import Iterable
from typing import Any, Final

from tracereel import semconv
from tracereel._core.executions import message_texts
from tracereel._core.executions.arguments import Ids
from tracereel._core.executions.scope import ExecutionScope, Spec, cancel_reason
from tracereel._core.run_state import Tally
from tracereel._redact import values
from tracereel._runtime.time_zone import process_zone

_PROMPTS: Final = ("user_prompt", "prompt")
_ZONES: Final = ("user_timezone", "timezone")


class PipelineScope(ExecutionScope):
    """A run of a pipeline."""

    kind = "pipeline"
    adopts = True
    spec: "PipelineSpec"

    __slots__ = ()

    def opening(self) -> dict[str, Any]:
        arguments, agents, execution = self.arguments, self.spec.agents, self.execution
        known = arguments.fields(*_PROMPTS, *_ZONES).get
        prompt: object = None
        content = self.input_content()
        if self.captures:
            prompt = known("user_prompt", known("prompt"))
            if prompt is None:
                prompt = arguments.first_text(*_ZONES)
            if prompt is None:
                prompt = message_texts.question_in(content)
        zone = known("user_timezone", known("timezone"))
        return {
            "event_type": semconv.PIPELINE_STARTED,
            "request_id": execution.request_id,
            "parent_trace_id": self.parent_trace_id,
            "pipeline_type": self.spec.name,
            "agent_sequence": agents,
            "sequence_length": len(agents) if agents is not None else None,
            "user_prompt": values.label(prompt, values.TEXT_LIMIT),
            "input": content,
            "user_timezone": process_zone() if zone is None else values.label(zone),
            "user_id": execution.user_id or values.label(arguments.find("user_id")),
        }

    def closing(self, result: object, milliseconds: int) -> dict[str, Any]:
        tally, note = self.execution.tally, self.execution.notes.get
        self.judge(result)
        partial = tally is not None and (
            tally.counts[semconv.FAILED] > 0 or tally.counts[semconv.REPLACED] > 0
        )
        status = note("status") or (semconv.PARTIAL_SUCCESS if partial else semconv.SUCCESS)
        event = self.closed_fields(status, milliseconds)
        output = self.output_content(result)
        if self.captures:
            event["output_summary"], event["output"] = output.summary, output.data
        return event

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any]:
        return {**self.closed_fields(semconv.FAILED, milliseconds), **self.failure_fields(error)}

    def closing_cancelled(self, error: BaseException | None, milliseconds: int) -> dict[str, Any]:
        event = self.closed_fields(semconv.CANCELLED, milliseconds)
        event["cancel_reason"] = cancel_reason(error)
        return event

    def closed_fields(self, status: str, milliseconds: int) -> dict[str, Any]:
        """Return the fields of every closing event."""
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
            "agent_sequence": list(tally.sequence),
            "sequence_length": len(tally.sequence),
            "agents_executed": tally.executed,
            "agents_succeeded": tally.counts[semconv.SUCCESS],
            "agents_failed": tally.counts[semconv.FAILED],
            "agents_cancelled": tally.counts[semconv.CANCELLED],
            "agents_replaced": tally.counts[semconv.REPLACED],
            "agents_retried": tally.retried,
            "agent_results": list(tally.results),
            "output_summary": None,
            "final_confidence": note("confidence"),
            "total_llm_tokens": tally.usage.total,
            "total_llm_cost_usd": tally.usage.cost,
        }


class PipelineSpec(Spec):
    """Options of `traced_pipeline`."""

    verb, named, scope = semconv.INVOKE_WORKFLOW, "pipeline_type", PipelineScope
    __slots__ = ("agents",)

    def __init__(
        self, pipeline_type: str, *, agents: Iterable[str] | None, ids: Ids, **options: Any
    ) -> None:
        self.agents = None if agents is None else [values.label(name) or "" for name in agents]
        super().__init__(pipeline_type, ids=ids, **options)
