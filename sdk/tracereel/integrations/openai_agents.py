"""OpenAI Agents SDK integration: records agents, tools, hand-offs, guardrails and model calls.

    from tracereel.integrations import openai_agents
    openai_agents.instrument()

It adds a trace processor beside existing ones; `uninstrument()` stops it. Other processing of the
SDK's traces is not affected.
"""

from typing import Any, Final

from tracereel._core import framework_entries
from tracereel._core.executions.agent import AgentScope
from tracereel._core.executions.scope import Spec
from tracereel._core.executions.steps import StepSpec
from tracereel._core.recorder import Recorder
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel.integrations import _compat, _framework_entries, _packages
from tracereel.integrations._dialects import CHAT, RESPONSES, Dialect
from tracereel.integrations._model_call import (
    ModelCall,
    register_framework_call,
    unregister_framework_call,
)
from tracereel.integrations._runs import (
    FailedToolError,
    FrameworkRun,
    FrameworkRuns,
    agent_spec,
    open_scope,
    recorded,
    tool_spec,
)
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.providers.base import UNKNOWN_MODEL
from tracereel.providers.reading import as_data, get, items, json_object, mapping, text

with _packages.needed("openai-agents"):
    from agents import Runner
    from agents.tracing import TracingProcessor, add_trace_processor, get_trace_provider
_packages.warn_if_old("openai-agents")

_MODELS: Final[dict[str, Dialect]] = {"response": RESPONSES, "generation": CHAT}
_STEPS: Final = frozenset(
    {"handoff", "guardrail", "custom", "mcp_tools", "speech", "transcription"}
)
"""Span types that are steps; other types (turns, tasks) are not recorded."""


_REQUESTED: Final = (
    *("instructions", "tools", "temperature", "max_output_tokens", "top_p", "tool_choice"),
    *("parallel_tool_calls", "reasoning", "text", "truncation", "service_tier"),
)
"""Fields of a response that repeat the request."""


class FailedRunError(Exception):
    """A span ended with an error; the SDK passes on only its message."""


class TracereelProcessor(TracingProcessor):
    """Trace processor that records spans."""

    def __init__(self) -> None:
        self.enabled = True
        self._runs = FrameworkRuns()
        self._memory = ToolMemory()

    def on_trace_start(self, trace: Any) -> None:
        """Start a workflow; its group id is the session of everything in it."""
        with guard.Guard("openai_agents"):
            if self.enabled:
                session = text(getattr(trace, "group_id", None))
                self._runs.add(trace.trace_id, FrameworkRun(None, trace.name, session_id=session))

    def on_trace_end(self, trace: Any) -> None:
        """End a workflow."""
        self._runs.end(trace.trace_id)

    def on_span_start(self, span: Any) -> None:
        """Start an agent, tool or model span."""
        with guard.Guard("openai_agents"):
            if self.enabled:
                self._starts(span)

    def on_span_end(self, span: Any) -> None:
        """End a span."""
        with guard.Guard("openai_agents"):
            if (known := self._runs.get(span.span_id)) is not None:
                error = text(get(span.error, "message"))
                if error is None:
                    known.taped.returned(known.output)
                else:
                    known.taped.raised(FailedRunError(error))
            run = self._runs.end(span.span_id)
            if run is not None:
                self._ends(run, span)

    def shutdown(self) -> None:
        """Do nothing, because nothing is buffered."""

    def force_flush(self) -> None:
        """Do nothing, because nothing is buffered."""

    def _starts(self, span: Any) -> None:
        data = span.span_data
        parent = self._runs.get(span.parent_id) or self._runs.get(span.trace_id)
        name = values.text(_name_of(data), values.SHORT_LIMIT)
        run = FrameworkRun(parent, name)
        if data.type in _MODELS:
            run.call = self._begun(run, data)
        elif (spec := _spec_of(data, name, self._runs.get(span.trace_id))) is not None:
            run.scope = open_scope(spec, parent, {})
            if run.scope is not None:
                run.scope.attach()
                run.begin_on_tape()
        self._runs.add(span.span_id, run)

    def _begun(self, run: FrameworkRun, data: Any) -> ModelCall | None:
        body: dict[str, Any] = {}
        run.inputs = body

        def made(recorder: Recorder) -> ModelCall:
            return ModelCall(
                recorder,
                _MODELS[data.type],
                body,
                model=text(getattr(data, "model", None)) or UNKNOWN_MODEL,
                provider="openai",
                memory=self._memory,
            )

        call: ModelCall | None = recorded(made, run.parent)
        if call is not None:
            register_framework_call(call)
        return call

    def _ends(self, run: FrameworkRun, span: Any) -> None:
        data = span.span_data
        error = text(get(span.error, "message"))
        if run.call is not None:
            unregister_framework_call(run.call)
            run.inputs.update(_request_of(data))
            if error is not None:
                run.call.failed(FailedRunError(error))
            else:
                answer = _answer_of(data)
                run.call.answered(answer)
                if (agent := _agent_of(run)) is not None:
                    agent.output = _MODELS[data.type].output_messages(answer)
        elif run.scope is not None:
            if data.type == "function":
                # The input is available only at the end of the span.
                arguments, kept = json_object(data.input)
                run.scope.arguments.kwargs = arguments if kept is None else {"input": data.input}
            if error is not None:
                kind = FailedToolError if data.type == "function" else FailedRunError
                run.scope.fail(kind(error))
            else:
                run.scope.complete(run.output or getattr(data, "output", None))


def _agent_of(run: FrameworkRun) -> FrameworkRun | None:
    """Return the nearest agent; its output, which the SDK does not report, is the last response."""
    return next((each for each in run.line() if isinstance(each.scope, AgentScope)), None)


def _name_of(data: Any) -> str:
    if data.type == "handoff":
        return f"{data.from_agent} to {data.to_agent}"
    return text(getattr(data, "name", None)) or data.type


def _spec_of(data: Any, name: str, trace: FrameworkRun | None) -> Spec | None:
    if data.type == "agent":
        session = trace.session_id if trace is not None else None
        return agent_spec(name, session)
    if data.type == "function":
        return tool_spec(name, None)
    if data.type in _STEPS:
        return StepSpec(name, step_type=data.type, ids={}, inputs=None)
    return None


def _request_of(data: Any) -> dict[str, Any]:
    asked = as_data(data.input)
    if data.type == "generation":
        settings = mapping(as_data(data.model_config))
        return {**settings, "messages": asked}
    response = data.response
    found = {name: as_data(get(response, name)) for name in _REQUESTED}
    return {**{name: value for name, value in found.items() if value is not None}, "input": asked}


def _answer_of(data: Any) -> dict[str, Any]:
    if data.type == "response":
        return mapping(as_data(data.response))
    # The SDK keeps the messages and usage of a response, not the response itself.
    choices = [
        {"index": index, "message": message, "finish_reason": None}
        for index, message in enumerate(items(as_data(data.output)))
    ]
    return {"choices": choices, "model": data.model, "usage": as_data(data.usage)}


_installed: Final[list[TracereelProcessor]] = []


def instrument() -> None:
    """Record all Agents SDK runs in this process until `uninstrument`."""
    for name in framework_entries.FRAMEWORKS["openai-agents"].methods:
        _framework_entries.watch(
            Runner,
            name,
            f"openai-agents.{name}",
            leaves_out=("hooks", "run_config", "error_handlers"),
        )
    # Programs may replace all processors.
    if not _installed or not _compat.is_registered(_installed[0], get_trace_provider()):
        _installed[:] = [TracereelProcessor()]
        add_trace_processor(_installed[0])
    _installed[0].enabled = True


def uninstrument() -> None:
    """Undo `instrument`; runs in progress are recorded to their end."""
    for processor in _installed:
        processor.enabled = False
