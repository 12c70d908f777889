"""Scope of an agent execution: started, then completed, failed or cancelled."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Self

from tracereel import semconv
from tracereel._core import attempt_context, error_details, execution_fields
from tracereel._core.executions.scope import ExecutionScope, Spec, cancel_reason
from tracereel._core.package_version import version_of
from tracereel._core.run_state import Ended
from tracereel._redact import values

_THINKING: Final = ("enable_thinking", "thinking_budget")


class AgentScope(ExecutionScope):
    """A call of an agent."""

    adopts = True

    __slots__ = ()

    def opened(self) -> None:
        execution = self.execution
        attempt_context.adopt(execution)
        if execution.tally is not None:
            execution.tally.begin(self.spec.name)

    def opening(self) -> dict[str, Any]:
        given, content = self.arguments.pairs(), self.described_input()
        event = {
            "event_type": semconv.EXECUTION_STARTED,
            "request_id": self.execution.request_id,
            "parent_trace_id": self.parent_trace_id,
            "input_type": values.type_name(given[0][1] if given else None),
            "input_summary": content.summary,
            "input_size_bytes": content.size,
            "input": content.data,
            **self.spec.about,
        }
        for name, value in self.arguments.fields(*_THINKING).items():
            if event.get(name) is None:
                event[name] = execution_fields.CHECKS[name](value)
        return event

    def closing(self, result: object, milliseconds: int) -> dict[str, Any]:
        execution, stream = self.execution, self.stream
        note = execution.notes.get
        self.judge(result)
        output = self.output_content(result)
        event = {
            **self._common(semconv.EXECUTION_COMPLETED),
            "execution_time_ms": milliseconds,
            "execution_time_seconds": milliseconds / 1000,
            "output_type": values.type_name(result),
            "output_summary": output.summary,
            "output_size_bytes": output.size,
            "output": output.data,
            "confidence": note("confidence"),
            "decision_type": note("decision_type"),
            "reasoning": note("reasoning"),
            "stage": note("stage"),
        }
        if stream is not None:
            event["output_type"] = stream.kind
            event["output_items"] = stream.items
        elif (given := note("output")) is not None:
            event["output_type"] = given[0]
        self._ended(event, semconv.SUCCESS, milliseconds)
        event["fallback_used"] = execution.fallback_used
        if execution.state.limit_reached:
            event["end_code"] = semconv.CODE_ITERATION_LIMIT
        elif self.spec.timeout is not None and milliseconds > self.spec.timeout * 1000:
            event["end_code"] = semconv.CODE_TIMEOUT
        return event

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any]:
        execution = self.execution
        event = {
            **self._common(semconv.EXECUTION_FAILED),
            **self.failure_fields(error),
            "input_at_error": values.plain_dict(dict(self.arguments)) if self.captures else None,
            "partial_output": self._partial(),
            "max_retries_reached": execution.max_retries_reached,
            "fallback_attempted": execution.fallback_attempted,
            "fallback_successful": self._fallback_successful(),
            "execution_time_before_failure_ms": milliseconds,
        }
        if event["error_code"] == semconv.CODE_UNHANDLED and execution.state.limit_reached:
            event["error_code"] = semconv.CODE_ITERATION_LIMIT
        self._ended(event, semconv.FAILED, milliseconds)
        error_details.mark_failed(error, self.spec.name, execution.execution_id, execution.earlier)
        return event

    def _fallback_successful(self) -> bool | None:
        """Return the outcome of the fallback inside; None if one around the agent is still to run."""
        execution = self.execution
        slot = execution.slot
        if slot is not None and slot.execution is execution and slot.fallback_attempted:
            return None
        return execution.fallback_successful

    def too_slow(self, error: BaseException) -> TimeoutError | None:
        # `@retry(timeout=…)` cancels the agent; only the slot shows that it was a timeout.
        slot, execution = self.execution.slot, self.execution
        if slot is None or slot.execution is not execution:
            return None
        limit = slot.limit_passed if isinstance(error, asyncio.CancelledError) else None
        if limit is None:
            return None
        late = TimeoutError(f"no result within {limit:g} s").with_traceback(error.__traceback__)
        error_details.mark_limit(late, limit)
        return late

    def closing_cancelled(self, error: BaseException | None, milliseconds: int) -> dict[str, Any]:
        event = {
            **self._common(semconv.EXECUTION_CANCELLED),
            "cancel_reason": cancel_reason(error),
            "stage": self.execution.notes.get("stage"),
            "partial_output": self._partial(),
            "execution_time_before_cancel_ms": milliseconds,
        }
        self._ended(event, semconv.CANCELLED, milliseconds)
        return event

    def _common(self, event_type: str) -> dict[str, Any]:
        return {
            "event_type": event_type,
            "agent_name": self.spec.name,
            "agent_version": self.spec.about["agent_version"],
            "request_id": self.execution.request_id,
        }

    def _partial(self) -> dict[str, Any] | None:
        output: dict[str, Any] | None = self.execution.notes.get("partial_output")
        if output is not None:
            return output if self.captures else None
        return self.stream.partial() if self.stream is not None else None

    def _ended(self, event: dict[str, Any], status: str, milliseconds: int) -> None:
        """Add the fields of all closing events and update the enclosing slot and pipeline."""
        execution = self.execution
        state, notes = execution.state, execution.notes
        note = notes.get
        event["was_retried"] = execution.retry_count > 0
        event["retry_count"] = execution.retry_count
        event["attempts_made"] = 1 + execution.retry_count - execution.earlier
        prompt, completion = note("llm_prompt_tokens"), note("llm_completion_tokens")
        total, cost = note("llm_tokens_used"), note("llm_cost_usd")
        if (usage := state.usage) is not None:
            prompt = usage.prompt if prompt is None else prompt
            completion = usage.completion if completion is None else completion
            total = usage.total if total is None else total
            cost = usage.cost if cost is None else cost
        event["llm_tokens_used"] = total
        event["llm_prompt_tokens"] = prompt
        event["llm_completion_tokens"] = completion
        event["llm_cost_usd"] = cost
        if state.rounds or state.limit_reached:
            event["rounds"] = state.rounds
            event["round_limit"] = state.round_limit
        if state.duplicate_tool_calls:
            event["duplicate_tool_calls"] = state.duplicate_tool_calls
        if self.spec.timeout is not None and event.get("timeout_seconds") is None:
            event["timeout_seconds"] = self.spec.timeout
        if notes:
            for name in ("llm_provider", "llm_model", "finish_reason", *_THINKING):
                if name in notes:
                    event[name] = notes[name]
            seconds = note("llm_duration_seconds")
            # Traced model calls were already counted with their durations.
            if seconds is not None and not state.calls_models:
                provider = note("llm_provider") or self.spec.about["llm_provider"]
                self.recorder.metrics.observe_llm(provider, seconds)
        wasted = self._wasted(event, status, cost)
        if execution.slot is not None:
            ended = Ended(
                agent_name=self.spec.name,
                execution_id=state.execution_id,
                status=status,
                retry_count=execution.retry_count,
                earlier=execution.earlier,
                cost=cost or 0.0,
                cost_left=max(0.0, (cost or 0.0) - wasted) if status == semconv.SUCCESS else 0.0,
                tally=execution.tally,
                fallback_attempted=execution.fallback_attempted,
            )
            attempt_context.end(execution.slot, ended)
        if execution.tally is not None:
            result = {
                "agent_name": self.spec.name,
                "execution_id": state.execution_id,
                "status": status,
                "duration_ms": milliseconds,
                "confidence": note("confidence"),
                "retry_count": execution.retry_count,
                "fallback_used": execution.fallback_used,
                "error_code": event.get("error_code"),
            }
            execution.tally.end(result, (prompt, completion, total, cost))

    def _wasted(self, event: dict[str, Any], status: str, cost: float | None) -> float:
        """Record and count the cost wasted on attempts and routes; a failure wastes all."""
        if status != semconv.SUCCESS:
            if cost:
                event["wasted_cost_usd"] = cost
            return 0.0
        state = self.execution.state
        attempts, routes = state.attempts_cost, state.abandoned_cost
        if not attempts and not routes:
            return 0.0
        if cost is not None and attempts + routes > cost:
            # The agent set a lower cost than the sum of its calls.
            share = cost / (attempts + routes)
            attempts, routes = attempts * share, routes * share
        event["wasted_cost_usd"] = attempts + routes
        count = self.recorder.metrics.count_waste
        count(self.spec.name, "attempt", attempts)
        count(self.spec.name, "route", routes)
        return attempts + routes


class AgentSpec(Spec):
    """Options of `traced_agent`."""

    verb, named, scope = semconv.INVOKE_AGENT, "agent_name", AgentScope
    __slots__ = ()

    def of(self, function: Callable[..., Any]) -> Self:
        """Return the options with the version of the function's package as default."""
        spec = super().of(function)
        if self.about["agent_version"] is None:
            spec.about = {**self.about, "agent_version": version_of(function)}
        return spec
