"""LangChain and LangGraph integration: records agents, nodes, tools, retrievals and model calls.

    from tracereel.integrations.langchain import TracereelHandler
    agent.invoke(question, {"callbacks": [TracereelHandler()]})

`instrument()` records everything in the process without a callback argument; `uninstrument()`
stops it.
"""

from contextvars import ContextVar
from typing import Any, Final

from tracereel._runtime import guard
from tracereel.integrations import _langchain_runs as runs
from tracereel.integrations import _langchain_served, _packages
from tracereel.integrations._langchain_runs import LangChainRuns

with _packages.needed("langchain"):
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers.context import register_configure_hook
_packages.warn_if_old("langchain")


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
        self._runs = LangChainRuns()
        _langchain_served.install()

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
        """Start a chain, graph or node."""
        name = runs.name_of(serialized, about)
        self._runs.chain_starts(run_id, name, inputs, runs.About.of(about))

    @_guarded
    def on_chain_end(self, outputs: Any, *, run_id: Any, **_about: Any) -> None:
        """Complete a chain, graph or node."""
        self._runs.ends(run_id, outputs)

    @_guarded
    def on_chain_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """Fail a chain, graph or node, or record its wait for a person."""
        self._runs.fails(run_id, error)

    @_guarded
    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: Any, **about: Any
    ) -> None:
        """Start a chat model call."""
        asked = messages[0] if len(messages) == 1 else messages
        self._model_starts(serialized, asked, run_id, about)

    @_guarded
    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: Any, **about: Any) -> None:
        """Start a call of a text completion model."""
        self._model_starts(serialized, prompts, run_id, about)

    def _model_starts(self, serialized: Any, asked: Any, run_id: Any, about: Any) -> None:
        name = runs.name_of(serialized, about)
        self._runs.model_starts(run_id, name, asked, runs.About.of(about))

    @_guarded
    def on_llm_new_token(self, token: Any = "", *, run_id: Any, **_about: Any) -> None:  # noqa: ARG002
        """Record the arrival of a stream chunk."""
        self._runs.token(run_id)

    @_guarded
    def on_llm_end(self, response: Any, *, run_id: Any, **_about: Any) -> None:
        """Complete a model call."""
        self._runs.model_ends(run_id, response)

    @_guarded
    def on_llm_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """Fail a model call."""
        self._runs.model_fails(run_id, error)

    @_guarded
    def on_retry(self, retry_state: Any, *, run_id: Any, **_about: Any) -> None:
        """Record a failed attempt that will be retried."""
        self._runs.retries(run_id, retry_state)

    @_guarded
    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **about: Any) -> None:
        """Start a tool call."""
        inputs = about.get("inputs")
        arguments = inputs if isinstance(inputs, dict) else {"input": input_str}
        name = runs.name_of(serialized, about)
        call_id = about.get("tool_call_id")
        self._runs.tool_starts(run_id, name, arguments, call_id, runs.About.of(about))

    @_guarded
    def on_tool_end(self, output: Any, *, run_id: Any, **_about: Any) -> None:
        """Complete a tool call."""
        self._runs.tool_ends(run_id, output)

    @_guarded
    def on_tool_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """Fail a tool call."""
        self._runs.fails(run_id, error)

    @_guarded
    def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **about: Any) -> None:
        """Start a retrieval."""
        name = runs.name_of(serialized, about)
        self._runs.retriever_starts(run_id, name, query, runs.About.of(about))

    @_guarded
    def on_retriever_end(self, documents: Any, *, run_id: Any, **_about: Any) -> None:
        """Complete a retrieval."""
        self._runs.retriever_ends(run_id, documents)

    @_guarded
    def on_retriever_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """Fail a retrieval."""
        self._runs.fails(run_id, error)


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
