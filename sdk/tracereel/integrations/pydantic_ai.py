"""pydantic-ai integration: records agent runs, tools and model calls through a capability.

    from tracereel.integrations.pydantic_ai import TracereelCapability
    agent = Agent("openai:gpt-5", name="forecaster", capabilities=[TracereelCapability()])

`capability.enabled = False` stops recording.
"""

from typing import Any, Final

from tracereel._core import framework_entries
from tracereel._core.executions.scope import ExecutionScope
from tracereel._core.framework_entries import FrameworkEntry
from tracereel._core.recorder import Recorder
from tracereel._core.tape_session import RUNS, Live
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel.integrations import _framework_entries, _packages
from tracereel.integrations._dialects import LANGCHAIN
from tracereel.integrations._model_call import (
    ModelCall,
    register_framework_call,
    unregister_framework_call,
)
from tracereel.integrations._runs import agent_spec, enter_scope, recorded, tool_spec
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.providers.base import UNKNOWN_MODEL
from tracereel.providers.names import provider_named
from tracereel.providers.reading import as_data, json_object, mapping, text

with _packages.needed("pydantic-ai"):
    from pydantic_ai.capabilities import AbstractCapability
_packages.warn_if_old("pydantic-ai")

_STOPS: Final = {"tool_call": "tool_calls"}
"""pydantic-ai stop reasons that differ from those of providers."""


class TracereelCapability(AbstractCapability[Any]):
    """Capability that records agent runs; reusable for any number of agents."""

    def __init__(self) -> None:
        self.enabled = True
        self._memory = ToolMemory()

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """Record a run as an agent execution."""
        name = text(getattr(getattr(ctx, "agent", None), "name", None)) or "agent"
        session = getattr(ctx, "conversation_id", None)
        spec = agent_spec(values.text(name, values.SHORT_LIMIT), session)
        with _framework_entries.within(_entry_of(ctx)):
            scope = enter_scope(spec, {"prompt": ctx.prompt}) if self.enabled else None
            taped = framework_entries.begin(scope.execution) if scope is not None else RUNS
            return await _followed(
                scope, handler(), lambda result: getattr(result, "output", result), taped
            )

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """Record a tool call."""
        del ctx, tool_def
        spec = tool_spec(values.text(call.tool_name, values.SHORT_LIMIT), call.tool_call_id)
        inputs = args if isinstance(args, dict) else {"input": args}
        scope = enter_scope(spec, inputs) if self.enabled else None
        return await _followed(scope, handler(args), lambda result: result)

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """Record a model call."""
        del ctx

        def made(recorder: Recorder) -> ModelCall:
            return _model_call(recorder, request_context, self._memory)

        call: ModelCall | None = recorded(made, None) if self.enabled else None
        if call is None:
            return await handler(request_context)
        register_framework_call(call)
        try:
            response = await handler(request_context)
        except BaseException as error:
            call.failed(error)
            raise
        finally:
            unregister_framework_call(call)
            call.detach()
        with guard.Guard("pydantic_ai"):
            answer = _answer_of(response)
            message = {"role": "assistant", "content": answer["content"]}
            call.answered(answer, shown={"messages": [message], "id": answer["id"]})
        return response


def _entry_of(ctx: Any) -> FrameworkEntry | None:
    """Return the call that begins a run; its history and dependencies belong to the input."""
    if not framework_entries.is_needed():
        return None
    given = {"user_prompt": ctx.prompt, "message_history": list(ctx.messages), "deps": ctx.deps}
    arguments = {name: value for name, value in given.items() if value not in (None, [])}
    return framework_entries.entry_of("pydantic-ai.run", ctx.agent, arguments)


async def _followed(scope: ExecutionScope | None, work: Any, shown: Any, taped: Live = RUNS) -> Any:
    if scope is None:
        return await work
    try:
        result = await work
    except BaseException as error:
        taped.raised(error)
        scope.fail(error)
        raise
    taped.returned(shown(result))
    scope.complete(shown(result))
    return result


def _model_call(recorder: Recorder, request: Any, memory: ToolMemory) -> ModelCall:
    model = request.model
    system = text(getattr(model, "system", None)) or "unknown"
    body = {
        **mapping(as_data(request.model_settings)),
        "messages": [as_data(message) for message in request.messages],
        "tools": _tools_of(request),
    }
    call = ModelCall(
        recorder,
        LANGCHAIN,
        body,
        model=text(getattr(model, "model_name", None)) or UNKNOWN_MODEL,
        provider=provider_named(system.partition("-")[0]) or system,
        memory=memory,
    )
    call.attach()
    if getattr(request, "streaming", False):
        call.streams()
    return call


def _tools_of(request: Any) -> list[Any] | None:
    """Return the tools that are offered to the model, those for its final output included."""
    offered = getattr(request, "model_request_parameters", None)
    tools = [
        tool
        for name in ("function_tools", "output_tools", "builtin_tools")
        for tool in getattr(offered, name, None) or ()
    ]
    found = [mapping(as_data(tool)) for tool in tools]
    return [{name: each[name] for name in each if each[name] is not None} for each in found] or None


def _answer_of(response: Any) -> dict[str, Any]:
    """Convert a response to content blocks."""
    usage = response.usage
    stop = text(getattr(response, "finish_reason", None))
    blocks = [_block_of(part) for part in response.parts]
    return {
        "type": "message",
        "role": "assistant",
        "id": text(getattr(response, "provider_response_id", None)),
        "model": response.model_name,
        "content": [block for block in blocks if block is not None],
        "stop_reason": _STOPS.get(stop or "", stop),
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "input_token_details": {
                "cache_read": usage.cache_read_tokens,
                "cache_creation": usage.cache_write_tokens,
            },
            "output_token_details": {
                "reasoning": mapping(getattr(usage, "details", None)).get("reasoning_tokens")
            },
        },
    }


def _block_of(part: Any) -> dict[str, Any] | None:
    kind = part.part_kind
    if kind == "text":
        return {"type": "text", "text": part.content}
    if kind == "thinking":
        return {"type": "thinking", "thinking": part.content}
    if kind in ("tool-call", "builtin-tool-call"):
        arguments, kept = json_object(part.args)
        asked = {"id": part.tool_call_id, "name": part.tool_name, "input": arguments}
        where = "tool_use" if kind == "tool-call" else "server_tool_use"
        return {"type": where, **asked, **({} if kept is None else {"partial_json": kept})}
    return None
