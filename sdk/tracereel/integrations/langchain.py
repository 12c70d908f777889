"""LangChain and LangGraph integration: records agents, nodes, tools, retrievals and model calls.

    from tracereel.integrations.langchain import TracereelHandler
    agent.invoke(question, {"callbacks": [TracereelHandler()]})

`instrument()` records everything in the process without a callback argument; `uninstrument()`
stops it.
"""

import sys
import time
from contextvars import ContextVar
from typing import Any, Final

from tracereel._core import context, framework_entries
from tracereel._core.executions.scope import Spec
from tracereel._core.executions.steps import RetrievalSpec, StepSpec
from tracereel._core.recorder import Recorder
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel.integrations import _framework_entries, _langchain_served, _packages
from tracereel.integrations._dialects import LANGCHAIN
from tracereel.integrations._langchain_approvals import WAITING, PendingApprovals
from tracereel.integrations._model_call import (
    ModelCall,
    register_framework_call,
    retry_reason,
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
from tracereel.providers.names import provider_named, provider_of_model
from tracereel.providers.normalizer import BatchResultNormalizer
from tracereel.providers.reading import as_data, first_text, get, items, mapping, plain_text, text
from tracereel.resilience.attempt_loop import count_retry, retry_event
from tracereel.resilience.backoff import EXPONENTIAL
from tracereel.resilience.wrapped_functions import error_text

with _packages.needed("langchain"):
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers.context import register_configure_hook
_packages.warn_if_old("langchain")

_NODE: Final = "graph:step:"
_HIDDEN: Final = "langsmith:hidden"
_NAMED: Final = frozenset({"_type", "model", "model_name", "stream", "streaming"})
"""Parameters of a call that are not options of the request."""


def _guarded(method: Any) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        with guard.Guard("langchain"):
            method(self, *args, **kwargs)

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


class TracereelHandler(BaseCallbackHandler):
    """Callback handler that records runs; thread-safe and reusable for any number of runs.

    A graph or an outermost chain is an agent execution, and a node of a graph is a step. Other
    chains are not recorded. An interrupt is a wait for a person, not a failure.
    """

    # Run callbacks in the context of the work; pool threads would not have it.
    run_inline = True
    raise_error = False

    def __init__(self) -> None:
        self.enabled = True
        self._runs = FrameworkRuns()
        self._memory = ToolMemory()
        self._approvals = PendingApprovals()
        _langchain_served.install()
        _watch_graphs()

    @property
    def ignore_llm(self) -> bool:
        """Whether recording is off; the framework checks this before callbacks."""
        return not self.enabled

    ignore_chain = ignore_agent = ignore_retriever = ignore_chat_model = ignore_retry = ignore_llm

    @property
    def ignore_custom_event(self) -> bool:
        """Ignore custom events of the program."""
        return True

    @_guarded
    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **about: Any) -> None:
        """Start a chain.

        A graph, or a chain without an enclosing execution, is an agent. A node, or an outermost
        chain inside an execution, is a step. Other chains are not recorded.
        """
        metadata, tags = mapping(about.get("metadata")), items(about.get("tags"))
        thread = text(metadata.get("thread_id"))
        run = self._run(serialized, about, inputs=inputs, session_id=thread)
        parent = run.parent
        if "langgraph_node" in metadata and any(str(tag).startswith(_NODE) for tag in tags):
            if parent is not None and parent.scope is None:
                _open_agent(parent)  # a run with nodes is a graph
            _open(run, StepSpec(run.name, step_type="node", ids={}, inputs=None), inputs)
            if run.scope is not None:
                run.scope.attach()
        elif parent is None and _HIDDEN not in tags:
            around = context.current_execution()
            # Graphs name who built them (`langgraph`, `langchain_create_agent` …); older ones do not.
            is_graph = "ls_integration" in metadata or run.name == "LangGraph"
            if around is None or is_graph:
                _open_agent(run)
            else:
                _open(run, StepSpec(run.name, step_type="chain", ids={}, inputs=None), inputs)
            if thread is not None and type(inputs).__name__ == "Command":
                self._approvals.resolve(run.execution, thread, inputs)
            elif thread is not None and inputs:
                self._approvals.forget(thread)
        self._runs.add(run_id, run)

    @_guarded
    def on_chain_end(self, outputs: Any, *, run_id: Any, **_about: Any) -> None:
        """Complete a chain, node or retrieval."""
        if (known := self._runs.get(run_id)) is not None:
            known.taped.returned(outputs)
        run = self._runs.end(run_id)
        if run is not None and run.scope is not None:
            run.scope.complete(outputs)

    @_guarded
    def on_chain_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """Fail a chain, node, tool or retrieval, or record its wait for a person."""
        if (known := self._runs.get(run_id)) is not None:
            known.taped.raised(error)
        run = self._runs.end(run_id)
        if run is None or (scope := run.scope) is None:
            return
        bases = {each.__name__ for each in type(error).__mro__}
        if "GraphInterrupt" in bases:
            self._approvals.ask(run, scope.execution, error)
            if isinstance(scope.spec, StepSpec):
                scope.execution.set_output(WAITING)
            scope.complete(None)
        elif "GraphBubbleUp" in bases:  # a command for the enclosing graph
            scope.complete(None)
        else:
            scope.fail(error)

    on_tool_error = on_retriever_error = on_chain_error

    @_guarded
    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: Any, **about: Any
    ) -> None:
        """Start a chat model call."""
        asked = messages[0] if len(messages) == 1 else messages
        self._start_model(serialized, asked, run_id, about)

    @_guarded
    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: Any, **about: Any) -> None:
        """Start a call of a text completion model."""
        self._start_model(serialized, prompts, run_id, about)

    def _start_model(self, serialized: Any, asked: Any, run_id: Any, about: Any) -> None:
        run = self._run(serialized, about)
        metadata = mapping(about.get("metadata"))
        settings = mapping(about.get("invocation_params"))
        model = text(metadata.get("ls_model_name")) or first_text(settings, "model", "model_name")
        named = text(metadata.get("ls_provider"))
        provider = (provider_named(named) if named else None) or provider_of_model(model) or named
        temperature = metadata.get("ls_temperature")
        limit = metadata.get("ls_max_tokens")
        body = {
            **{name: as_data(value) for name, value in settings.items() if name not in _NAMED},
            "messages": as_data(asked),
            "temperature": settings.get("temperature") if temperature is None else temperature,
            "max_tokens": settings.get("max_tokens") if limit is None else limit,
        }

        def made(recorder: Recorder) -> ModelCall:
            return ModelCall(
                recorder,
                LANGCHAIN,
                body,
                model=model or run.name,
                provider=provider or "langchain",
                memory=self._memory,
            )

        run.call = recorded(made, run.parent)
        if run.call is not None:
            register_framework_call(run.call)
        self._runs.add(run_id, run)

    @_guarded
    def on_llm_new_token(self, token: Any = "", *, run_id: Any, **_about: Any) -> None:  # noqa: ARG002
        """Record the arrival of a stream chunk."""
        run = self._runs.get(run_id)
        if run is not None:
            if not run.tokens and run.call is not None:
                # Between the chunks of a stream the program's code runs in the same context.
                unregister_framework_call(run.call)
            run.token()

    @_guarded
    def on_llm_end(self, response: Any, *, run_id: Any, **_about: Any) -> None:
        """Complete a model call."""
        run = self._runs.end(run_id)
        if run is None or (call := run.call) is None:
            return
        unregister_framework_call(call)
        data = as_data(response)
        answer = BatchResultNormalizer(model=call.model, keep_raw=False).normalize_data(data)
        if answer.provider != "langchain" and call.provider == "langchain":
            call.provider = answer.provider
        call.complete_with(answer, {"messages": _messages(data)}, timings=run.timings(answer.usage))

    @_guarded
    def on_llm_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """Fail a model call."""
        run = self._runs.end(run_id)
        if run is not None and run.call is not None:
            unregister_framework_call(run.call)
            if run.tokens:
                run.call.streams()
            run.call.failed(error)

    @_guarded
    def on_retry(self, retry_state: Any, *, run_id: Any, **_about: Any) -> None:
        """Record a failed attempt that will be retried."""
        run, outcome = self._runs.get(run_id), retry_state.outcome
        error = outcome.exception() if outcome is not None else None
        if run is None or error is None:
            return
        action = retry_state.next_action
        failed: Any = {
            "error": error_text(error),
            "reason": retry_reason(error, None),
            "strategy": EXPONENTIAL,
            "delay": action.sleep if action is not None else 0.0,
        }
        if run.call is not None:
            run.call.retried(**failed, attempts=None)
        elif (execution := run.execution) is not None:
            attempt, now_ns = retry_state.attempt_number, time.time_ns()
            agent = execution.agent.name
            count_retry(execution)
            execution.emit(retry_event(agent=agent, attempt=attempt, now_ns=now_ns, **failed))

    @_guarded
    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **about: Any) -> None:
        """Start a tool call."""
        inputs = about.get("inputs")
        arguments = inputs if isinstance(inputs, dict) else {"input": input_str}
        run = self._run(serialized, about)
        self._start_call(run_id, run, tool_spec(run.name, about.get("tool_call_id")), arguments)

    @_guarded
    def on_tool_end(self, output: Any, *, run_id: Any, **_about: Any) -> None:
        """Complete a tool call; a result with an error status is a failure."""
        run = self._runs.end(run_id)
        if run is None or run.scope is None:
            return
        call_id = text(get(output, "tool_call_id"))
        if call_id is not None:
            run.scope.execution.notes.setdefault("tool_call_id", call_id)
        content = get(output, "content") if call_id is not None else output
        if call_id is not None and get(output, "status") == "error":
            run.scope.fail(FailedToolError(plain_text(as_data(content)) or "the tool failed"))
        else:
            run.scope.complete(content)

    @_guarded
    def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **about: Any) -> None:
        """Start a retrieval."""
        run = self._run(serialized, about)
        spec = RetrievalSpec(run.name, collection=None, top_k=None, ids={}, inputs=None)
        self._start_call(run_id, run, spec, {"query": query})

    def on_retriever_end(self, documents: Any, *, run_id: Any, **about: Any) -> None:
        """Complete a retrieval."""
        self.on_chain_end(documents, run_id=run_id, **about)

    def _run(self, serialized: Any, about: dict[str, Any], **fields: Any) -> FrameworkRun:
        name = text(about.get("name")) or text(get(serialized, "name"))
        path = get(serialized, "id")
        if name is None and isinstance(path, list) and path:
            name = text(path[-1])
        name = values.text(name or "unnamed", values.SHORT_LIMIT)
        return FrameworkRun(self._runs.get(about.get("parent_run_id")), name, **fields)

    def _start_call(
        self, run_id: Any, run: FrameworkRun, spec: Spec, inputs: dict[str, Any]
    ) -> None:
        _open(run, spec, inputs)
        if run.scope is not None:
            run.scope.attach()
            _langchain_served.opened(run.scope)
        self._runs.add(run_id, run)


def _open(run: FrameworkRun, spec: Spec, inputs: Any) -> None:
    given = inputs if isinstance(inputs, dict) else {"input": inputs}
    run.scope = open_scope(spec, run.parent, given)


def _open_agent(run: FrameworkRun) -> None:
    _open(run, agent_spec(run.name, run.session_id), run.inputs)
    run.begin_on_tape()


def _watch_graphs() -> None:
    """See the calls of compiled graphs, if the program has any."""
    graphs = sys.modules.get("langgraph.pregel")
    if graphs is not None:
        for name in framework_entries.FRAMEWORKS["langgraph"].methods:
            _framework_entries.watch(
                graphs.Pregel,
                name,
                f"langgraph.{name}",
                leaves_out=("debug", "control", "print_mode"),
            )


def _messages(result: Any) -> list[Any]:
    found = []
    for group in items(mapping(result).get("generations")):
        for each in items(group) or [group]:
            generation = mapping(each)
            found.append(generation.get("message") or generation.get("text"))
    return found


_global: Final[list[TracereelHandler]] = []


def instrument() -> None:
    """Record all LangChain and LangGraph runs in this process until `uninstrument`."""
    if not _global:
        handler = TracereelHandler()
        _global.append(handler)
        var: ContextVar[Any] = ContextVar("tracereel_langchain", default=handler)
        # A handler passed to a run takes precedence, so nothing is recorded twice.
        register_configure_hook(var, inheritable=True, handle_class=TracereelHandler)
    _global[0].enabled = True


def uninstrument() -> None:
    """Undo `instrument`."""
    for handler in _global:
        handler.enabled = False
