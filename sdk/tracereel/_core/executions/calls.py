"""Scopes of model and tool calls: a span and one event at the end."""

from typing import Any, Final

from opentelemetry.trace import SpanKind

from tracereel import semconv
from tracereel._core import attempt_context, execution_fields
from tracereel._core.executions import message_texts
from tracereel._core.executions.scope import ExecutionScope, Spec, cancel_reason
from tracereel._redact import safe_access, values

DUPLICATE: Final = "duplicate_tool_call"
PARAMETERS: Final = frozenset(
    {"temperature", "max_tokens", "max_completion_tokens", "max_output_tokens", "top_p", "top_k"}
    | {"stop", "stop_sequences", "seed", "n", "response_format", "tool_choice", "reasoning_effort"}
    | {"reasoning", "thinking", "enable_thinking", "thinking_budget", "presence_penalty"}
    | {"frequency_penalty", "logprobs", "parallel_tool_calls", "service_tier", "verbosity"}
)
"""Arguments of a traced function that are options of the request."""
SENT: Final = "sent"
"""Note with a function that returns the messages which a client sent for the traced function."""
EFFECTS: Final = ("pure", "read", "write", "irreversible")
"""Side effects of a tool, from none to irreversible."""


class CallScope(ExecutionScope):
    """Base of calls inside an execution: one event with a status, at the end."""

    stage: str | None = None

    __slots__ = ()

    def closing(self, result: object, milliseconds: int) -> dict[str, Any] | None:
        return self._closed(semconv.SUCCESS, milliseconds, {}, result)

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any] | None:
        fields = self.failure_fields(error, self.stage)
        return self._closed(semconv.FAILED, milliseconds, fields)

    def closing_cancelled(
        self, error: BaseException | None, milliseconds: int
    ) -> dict[str, Any] | None:
        return self._closed(
            semconv.CANCELLED, milliseconds, {"cancel_reason": cancel_reason(error)}
        )

    def _closed(
        self, status: str, milliseconds: int, fields: dict[str, Any], result: object = None
    ) -> dict[str, Any] | None:
        event = {
            "agent_name": self.execution.agent_name,
            "request_id": self.execution.request_id,
            "status": status,
            "duration_ms": milliseconds,
            **self.about(),
            **fields,
        }
        self.add_result(event, result)
        return self.settle(event)

    def about(self) -> dict[str, Any]:
        """Return the fields of every closing event of this kind."""
        raise NotImplementedError

    def add_result(self, event: dict[str, Any], result: object) -> None:
        """Add fields from the result or the generator's output."""

    def settle(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Return the final event, or `None` to drop it."""
        return event


class LlmScope(CallScope):
    """Model call."""

    kind = "llm"
    span_kind = SpanKind.CLIENT
    stage = "llm_call"

    __slots__ = ()

    def about(self) -> dict[str, Any]:
        execution, spec, about = self.execution, self.spec, self.spec.about
        note = execution.notes.get
        prompt, completion = note("llm_prompt_tokens"), note("llm_completion_tokens")
        total, cost = note("llm_tokens_used"), note("llm_cost_usd")
        temperature, max_tokens = about["temperature"], about["max_tokens"]
        if total is None and prompt is not None and completion is not None:
            total = prompt + completion
        execution.state.calls_models = True
        execution.state.add_usage((prompt, completion, total, cost))
        attempt_context.spend(execution.state, cost)
        return {
            "event_type": semconv.LLM_CALLED,
            "operation": spec.operation,
            "llm_provider": note("llm_provider") or about["llm_provider"],
            # The response may name another model than the requested one.
            "llm_model": note("llm_model") or spec.name,
            "llm_model_requested": spec.name,
            "temperature": self.temperature() if temperature is None else temperature,
            "max_tokens": self.max_tokens() if max_tokens is None else max_tokens,
            **self._thinking(),
            "time_to_first_token_ms": note("time_to_first_token_ms"),
            "was_streamed": self.stream is not None,
            "llm_tokens_used": total,
            "llm_prompt_tokens": prompt,
            "llm_completion_tokens": completion,
            "llm_cached_tokens": note("llm_cached_tokens"),
            "llm_cache_creation_tokens": note("llm_cache_creation_tokens"),
            "llm_reasoning_tokens": note("llm_reasoning_tokens"),
            "llm_cost_usd": cost,
            "finish_reason": note("finish_reason"),
            "input_messages": self._messages() if self.captures else None,
            "output_messages": note("output_messages") if self.captures else None,
            "tool_definitions": self._tools() if self.captures else None,
            "request_parameters": self._parameters() if self.captures else None,
            "tool_call_ids": note("tool_call_ids"),
        }

    def _thinking(self) -> dict[str, Any]:
        """Return whether the model may think, and how much, from notes, options or arguments."""
        note, about, find = self.execution.notes.get, self.spec.about.get, self.arguments.find
        enabled, budget = note("enable_thinking"), note("thinking_budget")
        if enabled is None and (enabled := about("enable_thinking")) is None:
            enabled = execution_fields.flag(find("enable_thinking"))
        if budget is None and (budget := about("thinking_budget")) is None:
            budget = values.count(find("thinking_budget"))
        if (given := find("thinking")) is not None:  # as Anthropic's clients take it
            thinking = safe_access.attributes(given, ("type", "budget_tokens"))
            if enabled is None and thinking.get("type") in ("enabled", "disabled", "adaptive"):
                enabled = thinking["type"] != "disabled"
            budget = values.count(thinking.get("budget_tokens")) if budget is None else budget
        return {"enable_thinking": enabled, "thinking_budget": budget}

    def temperature(self) -> float | None:
        """Return the requested temperature."""
        return values.real(self.arguments.find("temperature"))

    def max_tokens(self) -> int | None:
        """Return the requested maximum of response tokens."""
        return values.count(self.arguments.find("max_tokens"))

    def add_result(self, event: dict[str, Any], result: object) -> None:
        if (stream := self.stream) is not None:
            event["output_items"] = stream.items
            if event["time_to_first_token_ms"] is None and stream.first_tick is not None:
                event["time_to_first_token_ms"] = self.since_begin_ms(stream.first_tick)
        if self.captures:
            if event["output_messages"] is None:
                event["output_messages"] = self._response(result)
            event["input_summary"] = message_texts.sent(event["input_messages"])
            event["output_summary"] = message_texts.answered(event["output_messages"])
        if event.get("tokens_per_second") is None:
            event["tokens_per_second"] = _speed(event)

    def settle(self, event: dict[str, Any]) -> dict[str, Any] | None:
        if (tape := self.recorder.tape) is not None:
            tape.used(self.execution, "called", event)
        return event

    def _response(self, result: object) -> list[Any] | None:
        """Return the result or the generator's output as messages."""
        content, stream = self.recorder.content, self.stream
        if stream is None:
            return None if result is None else content.messages([result])
        output = stream.output()
        return output if output is None or type(output) is list else [output[:]]

    def _messages(self) -> Any:
        noted = self.execution.notes.get("input_messages")
        if noted is not None:
            return noted
        messages = self.arguments.find("messages", "prompt", "input")
        if messages is None and (sent := self.execution.notes.get(SENT)) is not None:
            messages = sent()
        return None if messages is None else self.recorder.content.messages(messages)

    def _tools(self) -> list[Any] | None:
        """Return the tools that were offered to the model."""
        noted = self.execution.notes.get("tool_definitions")
        if noted is not None:
            return list(noted)
        tools = self.arguments.find("tools", "functions")
        return None if tools is None else self.recorder.content.listed(tools)

    def _parameters(self) -> dict[str, Any] | None:
        """Return the options of the request."""
        noted: dict[str, Any] | None = self.execution.notes.get("request_parameters")
        if noted is not None:
            return noted
        given = {
            name: value
            for name, value in self.arguments
            if name in PARAMETERS and value is not None
        }
        return values.plain_dict(given) if given else None


class ToolScope(CallScope):
    """Tool call; a successful call is recorded once per call id and execution."""

    kind = "tool"
    stage = "tool_execution"

    __slots__ = ()

    def about(self) -> dict[str, Any]:
        call_id = self.execution.notes.get("tool_call_id") or self.spec.about["tool_call_id"]
        if call_id is None:
            call_id = values.label(self.arguments.find("tool_call_id", "tool_use_id", "call_id"))
        return {
            "event_type": semconv.TOOL_CALLED,
            "tool_name": self.spec.name,
            "tool_call_id": call_id,
            "tool_type": self.spec.about["tool_type"],
            "arguments": (
                self.recorder.content.arguments(self.arguments) if self.captures else None
            ),
        }

    def add_result(self, event: dict[str, Any], result: object) -> None:
        if self.stream is not None:
            event["output_items"] = self.stream.items
        elif event["status"] != semconv.SUCCESS:
            return
        output = self.output_content(result)
        event["result_size_bytes"] = output.size
        if self.captures:
            event["result"], event["result_summary"] = output.data, output.summary

    def settle(self, event: dict[str, Any]) -> dict[str, Any] | None:
        call_id = event["tool_call_id"]
        # A failed call may be retried under its id; a successful one is recorded once.
        if call_id is None or event["status"] != semconv.SUCCESS:
            return event
        if not self.execution.state.is_repeat(call_id):
            return event
        self.recorder.drop(DUPLICATE)
        return None


class LlmSpec(Spec):
    """Options of `traced_llm`."""

    verb, named, scope = "chat", "llm_model", LlmScope
    __slots__ = ()


class ToolSpec(Spec):
    """Options of `traced_tool`."""

    verb, named, scope = semconv.EXECUTE_TOOL, "tool_name", ToolScope
    __slots__ = ()


def _speed(event: dict[str, Any]) -> float | None:
    """Return the tokens per second since the first one, or of the whole call if it is not known."""
    tokens, milliseconds = event["llm_completion_tokens"], event["duration_ms"]
    since = milliseconds - (event["time_to_first_token_ms"] or 0)
    if since <= 0:
        since = milliseconds
    return round(tokens * 1000 / since, 3) if tokens and since > 0 else None
