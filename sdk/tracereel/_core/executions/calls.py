"""Scopes of model and tool calls: a span and one event at the end."""

from typing import Any, Final

from opentelemetry.trace import SpanKind

from tracereel import semconv
from tracereel._core import attempt_context
from tracereel._core.executions.arguments import Arguments, Ids
from tracereel._core.executions.scope import ExecutionScope, Spec
from tracereel._core.recorder import Recorder
from tracereel._redact import values

DUPLICATE: Final = "duplicate_tool_call"
EFFECTS: Final = ("pure", "read", "write", "irreversible")
"""Side effects of a tool, from none to irreversible."""


class CallScope(ExecutionScope):
    """Base of calls inside an execution: one event with a status, at the end."""

    stage: str | None = None

    __slots__ = ()

    def closing(self, result: object, milliseconds: int) -> dict[str, Any] | None:
        event = self.about(semconv.SUCCESS, milliseconds)
        self.told(event, result)
        return self.settle(event)

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any] | None:
        event = self.about(semconv.FAILED, milliseconds)
        failure, stage, origin = self.describe(error, self.stage)
        event["error_type"] = failure.error_type
        event["error_message"] = failure.error_message
        event["error_code"] = self.execution.notes.get("error_code") or failure.error_code
        event["error_category"] = failure.error_category
        event["stage"] = stage
        event["propagated"] = origin is not None
        event["origin_execution_id"] = origin
        self.told(event, None)
        return self.settle(event)

    def closing_cancelled(
        self, error: BaseException | None, milliseconds: int
    ) -> dict[str, Any] | None:
        event = self.about(semconv.CANCELLED, milliseconds)
        event["cancel_reason"] = values.type_name(error) if error is not None else "GeneratorExit"
        self.told(event, None)
        return self.settle(event)

    def about(self, status: str, milliseconds: int) -> dict[str, Any]:
        """Return the fields of every closing event."""
        raise NotImplementedError

    def told(self, event: dict[str, Any], result: object) -> None:
        """Add fields from the result or the generator's output."""

    def settle(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Return the final event, or `None` to drop it."""
        return event

    def agent_name(self) -> str | None:
        """Return the name of the enclosing agent, or `None`."""
        agent = self.execution.agent
        return agent.name if agent.kind == "agent" else None


class LlmSpec(Spec):
    """Options of `traced_llm`."""

    __slots__ = ("max_tokens", "model", "operation", "provider", "temperature")

    def __init__(
        self,
        model: str,
        *,
        provider: str | None,
        operation: str,
        temperature: float | None,
        max_tokens: int | None,
        ids: Ids,
        inputs: Any,
    ) -> None:
        self.model = model
        self.provider = values.label(provider)
        self.operation = values.label(operation) or "chat"
        self.temperature = values.real(temperature)
        self.max_tokens = values.count(max_tokens)
        super().__init__(
            model,
            verb=self.operation,
            named="llm_model",
            about={
                "operation": self.operation,
                "llm_provider": self.provider,
                "llm_model": model,
                "temperature": self.temperature,
                "max_tokens": self.max_tokens,
            },
            ids=ids,
            inputs=inputs,
        )

    def open(self, recorder: Recorder, arguments: Arguments) -> ExecutionScope:
        return LlmScope(recorder, self, arguments)


class LlmScope(CallScope):
    """Model call."""

    kind = "llm"
    span_kind = SpanKind.CLIENT
    stage = "llm_call"
    spec: LlmSpec

    __slots__ = ()

    def about(self, status: str, milliseconds: int) -> dict[str, Any]:
        execution, spec = self.execution, self.spec
        note = execution.notes.get
        prompt, completion = note("llm_prompt_tokens"), note("llm_completion_tokens")
        total, cost = note("llm_tokens_used"), note("llm_cost_usd")
        if total is None and prompt is not None and completion is not None:
            total = prompt + completion
        execution.state.calls_models = True
        execution.state.add_usage(prompt, completion, total, cost)
        attempt_context.spend(execution.state, cost)
        return {
            "event_type": semconv.LLM_CALLED,
            "agent_name": self.agent_name(),
            "request_id": execution.request_id,
            "operation": spec.operation,
            "llm_provider": note("llm_provider") or spec.provider,
            # The response may name another model than the requested one.
            "llm_model": note("llm_model") or spec.model,
            "llm_model_requested": spec.model,
            "temperature": self.temperature() if spec.temperature is None else spec.temperature,
            "max_tokens": self.max_tokens() if spec.max_tokens is None else spec.max_tokens,
            "status": status,
            "duration_ms": milliseconds,
            "time_to_first_token_ms": note("time_to_first_token_ms"),
            "was_streamed": self.stream is not None,
            "llm_tokens_used": total,
            "llm_prompt_tokens": prompt,
            "llm_completion_tokens": completion,
            "llm_cached_tokens": note("llm_cached_tokens"),
            "llm_reasoning_tokens": note("llm_reasoning_tokens"),
            "llm_cost_usd": cost,
            "finish_reason": note("finish_reason"),
            "input_messages": self._messages() if self.captures else None,
            "output_messages": note("output_messages") if self.captures else None,
            "tool_call_ids": note("tool_call_ids"),
        }

    def temperature(self) -> float | None:
        """Return the requested temperature."""
        return values.real(self.arguments.find("temperature"))

    def max_tokens(self) -> int | None:
        """Return the requested maximum of response tokens."""
        return values.count(self.arguments.find("max_tokens"))

    def told(self, event: dict[str, Any], result: object) -> None:
        stream = self.stream
        if stream is None:
            if self.captures and result is not None and event["output_messages"] is None:
                event["output_messages"] = [values.plain(result)]
            return
        event["output_items"] = stream.items
        if event["time_to_first_token_ms"] is None and stream.first_tick is not None:
            event["time_to_first_token_ms"] = self.since_begin_ms(stream.first_tick)
        if self.captures and event["output_messages"] is None and stream.items:
            event["output_messages"] = [stream.summary()]
            if (about := stream.about()) is not None:
                event["output_messages_truncated"] = about

    def _messages(self) -> Any:
        said = self.execution.notes.get("input_messages")
        if said is not None:
            return said
        messages = self.arguments.find("messages", "prompt", "input")
        if messages is None:
            return None
        return as_list(messages)


class ToolSpec(Spec):
    """Options of `traced_tool`."""

    __slots__ = ("effect", "tool_call_id", "tool_type")

    def __init__(
        self,
        name: str,
        *,
        tool_type: str | None,
        tool_call_id: str | None,
        ids: Ids,
        inputs: Any,
        effect: str | None = None,
    ) -> None:
        self.effect = effect
        self.tool_type = values.label(tool_type)
        self.tool_call_id = values.label(tool_call_id)
        super().__init__(
            name,
            verb=semconv.EXECUTE_TOOL,
            named="tool_name",
            about={
                "operation": semconv.EXECUTE_TOOL,
                "tool_name": name,
                "tool_type": self.tool_type,
                "tool_call_id": self.tool_call_id,
            },
            ids=ids,
            inputs=inputs,
        )

    def open(self, recorder: Recorder, arguments: Arguments) -> ExecutionScope:
        return ToolScope(recorder, self, arguments)


class ToolScope(CallScope):
    """Tool call; a successful call is recorded once per call id and execution."""

    kind = "tool"
    stage = "tool_execution"
    spec: ToolSpec

    __slots__ = ()

    def about(self, status: str, milliseconds: int) -> dict[str, Any]:
        call_id = self.execution.notes.get("tool_call_id") or self.spec.tool_call_id
        if call_id is None:
            call_id = values.label(self.arguments.find("tool_call_id", "tool_use_id", "call_id"))
        return {
            "event_type": semconv.TOOL_CALLED,
            "agent_name": self.agent_name(),
            "request_id": self.execution.request_id,
            "tool_name": self.spec.name,
            "tool_call_id": call_id,
            "tool_type": self.spec.tool_type,
            "arguments": values.plain_dict(dict(self.arguments)) if self.captures else None,
            "status": status,
            "duration_ms": milliseconds,
        }

    def told(self, event: dict[str, Any], result: object) -> None:
        if self.stream is not None:
            event["output_items"] = self.stream.items
            event["result_size_bytes"] = self.stream.size
            event["result_summary"] = self.stream.summary()
            return
        if event["status"] != semconv.SUCCESS:
            return
        if (said := self.execution.notes.get("output")) is not None:
            _, summary, event["result_size_bytes"] = said
            event["result_summary"] = summary if self.captures else None
            return
        if not self.captures:
            event["result_size_bytes"] = values.size(result)
            return
        event["result_size_bytes"] = values.size(result)
        event["result"] = values.plain(result)
        event["result_summary"] = values.summary(result)

    def settle(self, event: dict[str, Any]) -> dict[str, Any] | None:
        call_id = event["tool_call_id"]
        # A failed call may be retried under its id; a successful one is recorded once.
        if call_id is None or event["status"] != semconv.SUCCESS:
            return event
        if not self.execution.state.is_repeat(call_id):
            return event
        self.recorder.drop(DUPLICATE)
        return None


def as_list(messages: Any) -> list[Any]:
    """Return the messages to a model as a list of JSON data."""
    data = values.plain(messages)
    return data if isinstance(data, list) else [data]
