"""LangChain and LangGraph by their callbacks: agents, nodes, tools, searches and model calls.

    from tracereel.integrations.langchain import TracereelHandler

    agent.invoke(question, {"callbacks": [TracereelHandler()]})

`instrument()` does it for everything in the process, without passing anything; `uninstrument()` ends it.
"""

from contextvars import ContextVar
from typing import Any, Final

from tracereel import _guard
from tracereel.integrations import _langchain_runs as runs
from tracereel.integrations import _langchain_served, _packages
from tracereel.integrations._langchain_runs import LangChainRuns

with _packages.needed("langchain"):
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers.context import register_configure_hook
_packages.warn_if_old("langchain")


def _guarded(method: Any) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        with _guard.Guard("langchain"):
            method(self, *args, **kwargs)

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


class TracereelHandler(BaseCallbackHandler):
    """Records the runs it is told of; one may serve any number of them, at once and in any thread.

    A graph, or a chain with nothing around it, is an execution of an agent; a node of a graph is a
    step; other chains in between are not shown. An interrupt is a wait for a person, not a failure.
    """

    # Called where the work is done, in its context: threads of a pool would see nothing of it.
    run_inline = True
    raise_error = False

    def __init__(self) -> None:
        self.enabled = True
        self._runs = LangChainRuns()
        _langchain_served.install()

    @property
    def ignore_llm(self) -> bool:
        """Whether nothing is recorded; the framework asks before it tells."""
        return not self.enabled

    ignore_chain = ignore_agent = ignore_retriever = ignore_chat_model = ignore_retry = ignore_llm

    @property
    def ignore_custom_event(self) -> bool:
        """Events of the program's own are not for us."""
        return True

    @_guarded
    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **about: Any) -> None:
        """A chain, a graph or a node of one begins."""
        name = runs.name_of(serialized, about)
        self._runs.chain_starts(run_id, name, inputs, runs.About.of(about))

    @_guarded
    def on_chain_end(self, outputs: Any, *, run_id: Any, **_about: Any) -> None:
        """It returns."""
        self._runs.ends(run_id, outputs)

    @_guarded
    def on_chain_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """It raises, or waits for a person."""
        self._runs.fails(run_id, error)

    @_guarded
    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: Any, **about: Any
    ) -> None:
        """A chat model is asked."""
        asked = messages[0] if len(messages) == 1 else messages
        self._model_starts(serialized, asked, run_id, about)

    @_guarded
    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: Any, **about: Any) -> None:
        """A model without chat is asked."""
        self._model_starts(serialized, prompts, run_id, about)

    def _model_starts(self, serialized: Any, asked: Any, run_id: Any, about: Any) -> None:
        name = runs.name_of(serialized, about)
        self._runs.model_starts(run_id, name, asked, runs.About.of(about))

    @_guarded
    def on_llm_new_token(self, token: Any = "", *, run_id: Any, **_about: Any) -> None:  # noqa: ARG002
        """A piece of the answer has come."""
        self._runs.token(run_id)

    @_guarded
    def on_llm_end(self, response: Any, *, run_id: Any, **_about: Any) -> None:
        """The model has answered."""
        self._runs.model_ends(run_id, response)

    @_guarded
    def on_llm_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """The model has not."""
        self._runs.model_fails(run_id, error)

    @_guarded
    def on_retry(self, retry_state: Any, *, run_id: Any, **_about: Any) -> None:
        """An attempt has failed and another one is due."""
        self._runs.retries(run_id, retry_state)

    @_guarded
    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **about: Any) -> None:
        """A tool is called."""
        inputs = about.get("inputs")
        arguments = inputs if isinstance(inputs, dict) else {"input": input_str}
        name = runs.name_of(serialized, about)
        call_id = about.get("tool_call_id")
        self._runs.tool_starts(run_id, name, arguments, call_id, runs.About.of(about))

    @_guarded
    def on_tool_end(self, output: Any, *, run_id: Any, **_about: Any) -> None:
        """The tool has answered."""
        self._runs.tool_ends(run_id, output)

    @_guarded
    def on_tool_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """The tool has raised."""
        self._runs.fails(run_id, error)

    @_guarded
    def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **about: Any) -> None:
        """Documents are searched for."""
        name = runs.name_of(serialized, about)
        self._runs.retriever_starts(run_id, name, query, runs.About.of(about))

    @_guarded
    def on_retriever_end(self, documents: Any, *, run_id: Any, **_about: Any) -> None:
        """Documents were found."""
        self._runs.retriever_ends(run_id, documents)

    @_guarded
    def on_retriever_error(self, error: BaseException, *, run_id: Any, **_about: Any) -> None:
        """The search has raised."""
        self._runs.fails(run_id, error)


_global: Final[list[TracereelHandler]] = []


def instrument() -> None:
    """Record every run of LangChain and LangGraph in this process, until `uninstrument`."""
    if not _global:
        handler = TracereelHandler()
        _global.append(handler)
        var: ContextVar[Any] = ContextVar("tracereel_langchain", default=handler)
        # A handler that a run is given takes precedence: nothing is recorded twice.
        register_configure_hook(var, inheritable=True, handle_class=TracereelHandler)
    _global[0].enabled = True


def uninstrument() -> None:
    """Undo `instrument`."""
    for handler in _global:
        handler.enabled = False
