"""A call of a model and a call of a tool: each a span, and one event when it has ended."""

from typing import Any, Final

from opentelemetry.trace import SpanKind

from tracereel import _values, semconv
from tracereel._recorder import Recorder
from tracereel._scopes.arguments import Arguments, Ids
from tracereel._scopes.base import Scope, Spec
from tracereel._written import small
from tracereel.resilience import _slots

DUPLICATE: Final = "duplicate_tool_call"
EFFECTS: Final = ("pure", "read", "write", "irreversible")
"""What a tool does to the world, from nothing to what cannot be undone."""


class CallScope(Scope):
    """What calls inside an execution have in common: one event, at the end, with a status."""

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
        event["cancel_reason"] = _values.type_name(error) if error is not None else "GeneratorExit"
        self.told(event, None)
        return self.settle(event)

    def about(self, status: str, milliseconds: int) -> dict[str, Any]:
        """The fields that every end has."""
        raise NotImplementedError

    def told(self, event: dict[str, Any], result: object) -> None:
        """Add what the result, or the stream of a generator, says."""

    def settle(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """The last word on the event; null when it is not to be recorded."""
        return event

    def agent_name(self) -> str | None:
        """The agent this happens in."""
        agent = self.execution.agent
        return agent.name if agent.kind == "agent" else None


class LlmSpec(Spec):
    """What `traced_llm` was given."""

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
        self.provider = _values.label(provider)
        self.operation = _values.label(operation) or "chat"
        self.temperature = _values.real(temperature)
        self.max_tokens = _values.count(max_tokens)
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

    def open(self, recorder: Recorder, arguments: Arguments) -> Scope:
        return LlmScope(recorder, self, arguments)


class LlmScope(CallScope):
    """A call of a model."""

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
        _slots.spend(execution.state, cost)
        return {
            "event_type": semconv.LLM_CALLED,
            "agent_name": self.agent_name(),
            "request_id": execution.request_id,
            "operation": spec.operation,
            "llm_provider": note("llm_provider") or spec.provider,
            # Only the answer says which model it was; what was asked for stands beside it.
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
        """What was asked for."""
        return _values.real(self.arguments.find("temperature"))

    def max_tokens(self) -> int | None:
        """How long the answer may be."""
        return _values.count(self.arguments.find("max_tokens"))

    def told(self, event: dict[str, Any], result: object) -> None:
        stream = self.stream
        if stream is None:
            if self.captures and result is not None and event["output_messages"] is None:
                event["output_messages"] = [_values.plain(result)]
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
    """What `traced_tool` was given."""

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
        self.tool_type = _values.label(tool_type)
        self.tool_call_id = _values.label(tool_call_id)
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

    def open(self, recorder: Recorder, arguments: Arguments) -> Scope:
        return ToolScope(recorder, self, arguments)


class ToolScope(CallScope):
    """A call of a tool. One call id is recorded once per execution, except for failures before."""

    kind = "tool"
    stage = "tool_execution"
    spec: ToolSpec

    __slots__ = ()

    def about(self, status: str, milliseconds: int) -> dict[str, Any]:
        call_id = self.execution.notes.get("tool_call_id") or self.spec.tool_call_id
        if call_id is None:
            call_id = _values.label(self.arguments.find("tool_call_id", "tool_use_id", "call_id"))
        return {
            "event_type": semconv.TOOL_CALLED,
            "agent_name": self.agent_name(),
            "request_id": self.execution.request_id,
            "tool_name": self.spec.name,
            "tool_call_id": call_id,
            "tool_type": self.spec.tool_type,
            "arguments": _values.plain_dict(dict(self.arguments)) if self.captures else None,
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
            event["result_size_bytes"] = _values.size(result)
            return
        # A tape has it as JSON already.
        written = getattr(getattr(self.execution, "tape", None), "written", None)
        size, data, summary = _values.told(result, written)
        event["result_size_bytes"] = size
        event["result"] = data
        event["result_summary"] = summary

    def settle(self, event: dict[str, Any]) -> dict[str, Any] | None:
        call_id = event["tool_call_id"]
        # A call that failed may be tried again under its id; what has succeeded is not told twice.
        if call_id is None or event["status"] != semconv.SUCCESS:
            return event
        if not self.execution.state.is_repeat(call_id):
            return event
        self.recorder.drop(DUPLICATE)
        return None


def as_list(messages: Any) -> Any:
    """What was said to a model as a list of JSON data, or as its JSON."""
    if isinstance(messages, (list, tuple)) and (written := small(messages)) is not None:
        return written
    data = _values.plain(messages)
    return data if isinstance(data, list) else [data]
