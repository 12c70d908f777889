"""OpenAI's Agents SDK by its tracing: agents, tools, hand-offs, guardrails and model calls.

    from tracereel.integrations import openai_agents

    openai_agents.instrument()

It is one more processor beside those that are there; `uninstrument()` ends it. Whatever else the SDK
does with its traces is not touched.
"""

import json
from typing import Any, Final

from tracereel import _guard, _values
from tracereel._recorder import Recorder
from tracereel._scopes.agent import AgentSpec
from tracereel._scopes.arguments import given
from tracereel._scopes.base import Spec
from tracereel._scopes.calls import ToolSpec
from tracereel._scopes.steps import StepSpec
from tracereel.integrations import _packages
from tracereel.integrations._dialects import CHAT, RESPONSES, Dialect
from tracereel.integrations._model_call import ModelCall, framework_tells_of, framework_told
from tracereel.integrations._runs import FailedToolError, Run, Runs, open_scope, recorded
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.providers.base import UNKNOWN_MODEL
from tracereel.providers.normalizer import BatchResultNormalizer
from tracereel.providers.reading import as_data, get, items, mapping, text

with _packages.needed("openai-agents"):
    from agents.tracing import TracingProcessor, add_trace_processor, get_trace_provider
_packages.warn_if_old("openai-agents")

_MODELS: Final[dict[str, Dialect]] = {"response": RESPONSES, "generation": CHAT}
_STEPS: Final = frozenset(
    {"handoff", "guardrail", "custom", "mcp_tools", "speech", "transcription"}
)
"""Kinds of spans that are steps; others (turns, tasks) only stand between those that are shown."""


class FailedRunError(Exception):
    """A span that ends with an error; the SDK tells its message only."""


class TracereelProcessor(TracingProcessor):
    """Records the spans it is told of."""

    def __init__(self) -> None:
        self.enabled = True
        self._runs = Runs()
        self._memory = ToolMemory()

    def on_trace_start(self, trace: Any) -> None:
        """A workflow begins: what it is part of is the session of everything in it."""
        with _guard.Guard("openai_agents"):
            if self.enabled:
                session = text(getattr(trace, "group_id", None))
                self._runs.add(trace.trace_id, Run(None, trace.name, session_id=session))

    def on_trace_end(self, trace: Any) -> None:
        """It is over."""
        self._runs.end(trace.trace_id)

    def on_span_start(self, span: Any) -> None:
        """An agent, a tool or a model begins."""
        with _guard.Guard("openai_agents"):
            if self.enabled:
                self._starts(span)

    def on_span_end(self, span: Any) -> None:
        """It is over."""
        with _guard.Guard("openai_agents"):
            run = self._runs.end(span.span_id)
            if run is not None:
                self._ends(run, span)

    def shutdown(self) -> None:
        """Nothing is held back."""

    def force_flush(self) -> None:
        """Nothing is held back."""

    def _starts(self, span: Any) -> None:
        data = span.span_data
        parent = self._runs.get(span.parent_id) or self._runs.get(span.trace_id)
        name = _values.text(_name_of(data), _values.SHORT_LIMIT)
        run = Run(parent, name)
        if data.type in _MODELS:
            run.call = self._begun(run, data)
        elif (spec := _spec_of(data, name, self._runs.get(span.trace_id))) is not None:
            run.scope = open_scope(spec, parent, {})
            if run.scope is not None:
                run.scope.attach()
        self._runs.add(span.span_id, run)

    def _begun(self, run: Run, data: Any) -> ModelCall | None:
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
            framework_tells_of(call)
        return call

    def _ends(self, run: Run, span: Any) -> None:
        data = span.span_data
        error = text(get(span.error, "message"))
        if run.call is not None:
            framework_told(run.call)
            run.inputs.update(_asked(data))
            if error is not None:
                run.call.failed(FailedRunError(error))
            else:
                answer = _answer_of(data)
                normalizer = BatchResultNormalizer(
                    provider="openai", model=run.call.model, keep_raw=False
                )
                run.call.told(normalizer.normalize_data(answer), answer)
        elif run.scope is not None:
            if data.type == "function":
                # What it was called with is known by now, and not before.
                run.scope.arguments.kwargs = _arguments(data.input)
            if error is not None:
                kind = FailedToolError if data.type == "function" else FailedRunError
                run.scope.fail(kind(error))
            else:
                run.scope.complete(getattr(data, "output", None))


def _name_of(data: Any) -> str:
    if data.type == "handoff":
        return f"{data.from_agent} to {data.to_agent}"
    return text(getattr(data, "name", None)) or data.type


def _spec_of(data: Any, name: str, trace: Run | None) -> Spec | None:
    if data.type == "agent":
        session = trace.session_id if trace is not None else None
        return AgentSpec(
            name,
            version=None,
            llm_provider=None,
            llm_model=None,
            temperature=None,
            max_tokens=None,
            ids=given({"session_id": session}),
            inputs=None,
        )
    if data.type == "function":
        return ToolSpec(name, tool_type="function", tool_call_id=None, ids={}, inputs=None)
    if data.type in _STEPS:
        return StepSpec(name, step_type=data.type, ids={}, inputs=None)
    return None


def _arguments(given_as: Any) -> dict[str, Any]:
    try:
        found = json.loads(given_as) if isinstance(given_as, str) else given_as
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"input": given_as}


def _asked(data: Any) -> dict[str, Any]:
    asked = as_data(data.input)
    if data.type == "generation":
        settings = mapping(as_data(data.model_config))
        return {**settings, "messages": asked}
    response = data.response
    found = {
        name: get(response, name) for name in ("instructions", "temperature", "max_output_tokens")
    }
    return {**found, "input": asked}


def _answer_of(data: Any) -> dict[str, Any]:
    if data.type == "response":
        return mapping(as_data(data.response))
    # The SDK keeps the messages and the counts of an answer, not the answer itself.
    choices = [
        {"index": index, "message": message, "finish_reason": None}
        for index, message in enumerate(items(as_data(data.output)))
    ]
    return {"choices": choices, "model": data.model, "usage": as_data(data.usage)}


_installed: Final[list[TracereelProcessor]] = []


def instrument() -> None:
    """Record the runs of every agent of the Agents SDK in this process, until `uninstrument`."""
    if not _installed or not _is_registered(_installed[0]):
        _installed[:] = [TracereelProcessor()]
        add_trace_processor(_installed[0])
    _installed[0].enabled = True


def _is_registered(processor: TracereelProcessor) -> bool:
    """Whether a processor that was added is still there: programs may set others in its place."""
    several = getattr(get_trace_provider(), "_multi_processor", None)
    known = getattr(several, "_processors", None)
    return known is None or processor in known


def uninstrument() -> None:
    """Undo `instrument`; what is under way is recorded to its end."""
    for processor in _installed:
        processor.enabled = False
