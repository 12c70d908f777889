"""Decorators that record agents, pipelines, and calls of models, tools, steps and retrievals.

Each decorates functions, methods, coroutine functions, generators and async generators. Each is also
a context manager for `with` and `async with` blocks, which returns the `Execution`.

`trace_id`, `request_id`, `session_id`, `user_id` and `parent_trace_id` identify the run. Agents and
pipelines also read them from arguments of those names, and from the attributes of an argument that
has them, such as a context object, whose properties of these names are read too.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, TypeVar, Unpack

from tracereel._core.executions.agent import AgentSpec
from tracereel._core.executions.arguments import IDS, given
from tracereel._core.executions.calls import EFFECTS, LlmSpec, ToolSpec
from tracereel._core.executions.pipeline import PipelineSpec
from tracereel._core.executions.scope import Spec
from tracereel._core.executions.steps import RetrievalSpec, StepSpec
from tracereel._core.listeners import Listener, check_listener
from tracereel._core.wrapping import Traced
from tracereel._redact import values

S = TypeVar("S", bound=Spec)


class RunOptions(TypedDict, total=False):
    """Options of every decorator."""

    trace_id: str | None
    request_id: str | None
    session_id: str | None
    user_id: str | None
    parent_trace_id: str | None
    inputs: Mapping[str, Any] | None
    """Inputs of a `with` block; arguments of a decorated function are recorded automatically."""
    on_event: Listener | None
    """Called with each event of the execution and of those inside, when it is recorded."""


def traced_agent(
    name: str,
    *,
    version: str | None = None,
    llm_provider: str | None = None,
    llm_model: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    enable_thinking: bool | None = None,
    thinking_budget: int | None = None,
    timeout: float | None = None,
    **run: Unpack[RunOptions],
) -> Traced[AgentSpec]:
    """Record every call as an execution of an agent.

    Example:
        @traced_agent("parsing_agent", version="1.0.0")
        async def parse(prompt: str) -> Parsed: ...

    Args:
        timeout: time limit in seconds; default none. A coroutine function is cancelled and raises
            TimeoutError, with recording off too. Other calls are marked when they end too late.

    Raises:
        TypeError: the name is missing or an option is unknown.
        ValueError: the timeout is not a number above 0.
    """
    limit = values.real(timeout)
    if timeout is not None and (limit is None or limit <= 0):
        raise ValueError(f"timeout is {timeout!r}; expected seconds above 0")
    return _traced(
        traced_agent,
        AgentSpec,
        name,
        run,
        version=version,
        llm_provider=llm_provider,
        llm_model=llm_model,
        temperature=temperature,
        max_tokens=max_tokens,
        enable_thinking=enable_thinking,
        thinking_budget=thinking_budget,
        timeout_seconds=limit,
    )


def traced_pipeline(
    pipeline_type: str, *, agents: Iterable[str] | None = None, **run: Unpack[RunOptions]
) -> Traced[PipelineSpec]:
    """Record every call as a run of a pipeline.

    Agents called inside are counted, also in tasks and threads that copy the context. The arguments
    `user_prompt` or `prompt` (else the first text), `user_timezone` or `timezone` (else the zone of
    the process), and `user_id` are recorded as fields.

    Args:
        agents: names of the agents in their planned order.

    Raises:
        TypeError: the type is missing or an option is unknown.
    """
    return _traced(traced_pipeline, PipelineSpec, pipeline_type, run, agents=agents)


def traced_llm(
    model: str,
    *,
    provider: str | None = None,
    operation: str = "chat",
    temperature: float | None = None,
    max_tokens: int | None = None,
    enable_thinking: bool | None = None,
    thinking_budget: int | None = None,
    **run: Unpack[RunOptions],
) -> Traced[LlmSpec]:
    """Record every call as a model call; a generator is a streamed one.

    Set usage with `current_execution().set(llm_prompt_tokens=…, finish_reason=…)`; the sums appear on the
    enclosing agent. An argument named `messages`, `prompt` or `input` is recorded as the request.

    Raises:
        TypeError: the model is missing or an option is unknown.
    """
    return _traced(
        traced_llm,
        LlmSpec,
        model,
        run,
        provider=provider,
        operation=operation,
        temperature=temperature,
        max_tokens=max_tokens,
        enable_thinking=enable_thinking,
        thinking_budget=thinking_budget,
    )


def traced_tool(
    name: str,
    *,
    tool_type: str | None = None,
    tool_call_id: str | None = None,
    effect: str | None = None,
    **run: Unpack[RunOptions],
) -> Traced[ToolSpec]:
    """Record every call as a tool call.

    The call's id is the option, or an argument named `tool_call_id`, `tool_use_id` or `call_id`. A
    successful call is recorded once per id and execution; repeats still run but are dropped and counted.

    Args:
        effect: side effect of the tool: `pure`, `read`, `write` or `irreversible`. The default is
            treated as `write`: a re-execution runs the tool only if it is requested by name.

    Raises:
        TypeError: the name is missing or an option is unknown.
        ValueError: the effect is unknown.
    """
    if effect is not None and effect not in EFFECTS:
        raise ValueError(f"effect is {effect!r}; expected one of {', '.join(EFFECTS)}")
    options = {"tool_type": tool_type, "tool_call_id": tool_call_id, "effect": effect}
    return _traced(traced_tool, ToolSpec, name, run, **options)


def traced_step(
    name: str, *, step_type: str | None = None, **run: Unpack[RunOptions]
) -> Traced[StepSpec]:
    """Record every call as a step of the enclosing agent; errors inside get it as stage.

    Raises:
        TypeError: the name is missing or an option is unknown.
    """
    return _traced(traced_step, StepSpec, name, run, step_type=step_type)


def traced_retrieval(
    name: str,
    *,
    collection: str | None = None,
    top_k: int | None = None,
    **run: Unpack[RunOptions],
) -> Traced[RetrievalSpec]:
    """Record every call as a retrieval of documents.

    The query, limit and collection are recorded from arguments named `query`, `question` or `text`,
    `top_k`, `k` or `limit`, and `collection`. If the result is a list, its length is recorded, with ids
    and scores of items that have them. Empty results are marked; mark degraded ones with
    `current_execution().set(degraded=True)`.

    Raises:
        TypeError: the name is missing or an option is unknown.
    """
    return _traced(traced_retrieval, RetrievalSpec, name, run, collection=collection, top_k=top_k)


def _traced(
    decorator: Callable[..., Traced[S]],
    spec: type[S],
    name: object,
    run: RunOptions,
    **options: Any,
) -> Traced[S]:
    """Check the name and the run options, and return the decorator's result."""
    called = decorator.__name__
    if not isinstance(name, str) or not name:
        raise TypeError(f'{called} takes a name, as in @{called}("parsing"); got {name!r}')
    ids: dict[str, Any] = {**run}
    inputs, on_event = ids.pop("inputs", None), ids.pop("on_event", None)
    if unknown := sorted(set(ids) - set(IDS)):
        import inspect  # slow to import, and needed only for the error message

        parameters = inspect.signature(decorator).parameters.values()
        own = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        takes = ", ".join([*own, *IDS, "inputs", "on_event"])
        raise TypeError(f"{called} has no option {', '.join(unknown)}; it takes {takes}")
    if on_event is not None:
        check_listener(on_event)
    name = values.text(name, values.SHORT_LIMIT)
    made = spec(name, ids=given(ids), inputs=inputs, on_event=on_event, **options)
    made.module = sys._getframe(2).f_globals.get("__name__")  # noqa: SLF001 - of `with` blocks
    return Traced(made, tag=name if spec is AgentSpec else None)
