"""The decorators: agents, pipelines, and the calls of models, tools, steps and searches inside them.

Each decorates functions, methods, coroutine functions, generators and async generators, and each is
the context of a `with` or `async with` block, which gives the `Execution`.

`trace_id`, `request_id`, `session_id`, `user_id` and `parent_trace_id` name the run. For agents and
pipelines they are also taken from arguments of those names, and from the data of an argument that
has them, such as a context object.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

from tracereel import _values
from tracereel._scopes.agent import AgentSpec
from tracereel._scopes.arguments import IDS, Ids, given
from tracereel._scopes.calls import EFFECTS, LlmSpec, ToolSpec
from tracereel._scopes.pipeline import PipelineSpec
from tracereel._scopes.steps import RetrievalSpec, StepSpec
from tracereel._wrapping import Traced


class RunOptions(TypedDict, total=False):
    """Options that every decorator takes."""

    trace_id: str | None
    request_id: str | None
    session_id: str | None
    user_id: str | None
    parent_trace_id: str | None
    inputs: Mapping[str, Any] | None
    """What a `with` block is given; a decorated function's arguments are recorded by themselves."""


def traced_agent(
    name: str,
    *,
    version: str | None = None,
    llm_provider: str | None = None,
    llm_model: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    **run: Unpack[RunOptions],
) -> Traced[AgentSpec]:
    """Record every call as an execution of an agent.

    Example:
        @traced_agent("parsing_agent", version="1.0.0")
        async def parse(prompt: str) -> Parsed: ...

    Raises:
        TypeError: no name was given, or an option that there is not.
    """
    name = _name(name, "traced_agent")
    spec = AgentSpec(
        name,
        version=version,
        llm_provider=llm_provider,
        llm_model=llm_model,
        temperature=temperature,
        max_tokens=max_tokens,
        ids=_ids(run, "traced_agent"),
        inputs=run.get("inputs"),
    )
    return Traced(spec, tag=name)


def traced_pipeline(
    pipeline_type: str, *, agents: Iterable[str] | None = None, **run: Unpack[RunOptions]
) -> Traced[PipelineSpec]:
    """Record every call as a run of a pipeline.

    The agents called inside are counted, also in tasks and threads that copy the context. Arguments
    named `user_prompt` or `prompt`, `user_timezone` or `timezone`, and `user_id` are recorded as
    what they are called.

    Args:
        agents: names of the agents, in the order in which they are meant to run.

    Raises:
        TypeError: no type was given, or an option that there is not.
    """
    spec = PipelineSpec(
        _name(pipeline_type, "traced_pipeline"),
        agents=agents,
        ids=_ids(run, "traced_pipeline"),
        inputs=run.get("inputs"),
    )
    return Traced(spec)


def traced_llm(
    model: str,
    *,
    provider: str | None = None,
    operation: str = "chat",
    temperature: float | None = None,
    max_tokens: int | None = None,
    **run: Unpack[RunOptions],
) -> Traced[LlmSpec]:
    """Record every call as a call of a model; a generator is a streamed one.

    `current_execution().set(llm_prompt_tokens=…, finish_reason=…)` inside says what it used; the sums
    are on the agent around. An argument named `messages`, `prompt` or `input` is what was asked.

    Raises:
        TypeError: no model was given, or an option that there is not.
    """
    spec = LlmSpec(
        _name(model, "traced_llm"),
        provider=provider,
        operation=operation,
        temperature=temperature,
        max_tokens=max_tokens,
        ids=_ids(run, "traced_llm"),
        inputs=run.get("inputs"),
    )
    return Traced(spec)


def traced_tool(
    name: str,
    *,
    tool_type: str | None = None,
    tool_call_id: str | None = None,
    effect: str | None = None,
    **run: Unpack[RunOptions],
) -> Traced[ToolSpec]:
    """Record every call as a call of a tool.

    The call's id is the option, or an argument named `tool_call_id`, `tool_use_id` or `call_id`. What
    has succeeded under an id is recorded once per execution; repeats run, are dropped and counted.

    Args:
        effect: what it does to the world: `pure`, `read`, `write` or `irreversible`. A tool that does
            not say is taken to write: in a re-execution it runs only where it is asked for by name.

    Raises:
        TypeError: no name was given, or an option that there is not.
        ValueError: the effect is none of these.
    """
    if effect is not None and effect not in EFFECTS:
        raise ValueError(f"effect is {effect!r}; expected one of {', '.join(EFFECTS)}")
    spec = ToolSpec(
        _name(name, "traced_tool"),
        tool_type=tool_type,
        tool_call_id=tool_call_id,
        effect=effect,
        ids=_ids(run, "traced_tool"),
        inputs=run.get("inputs"),
    )
    return Traced(spec)


def traced_step(
    name: str, *, step_type: str | None = None, **run: Unpack[RunOptions]
) -> Traced[StepSpec]:
    """Record every call as a step of the agent around; a failure inside has the step as its stage.

    Raises:
        TypeError: no name was given, or an option that there is not.
    """
    spec = StepSpec(
        _name(name, "traced_step"),
        step_type=step_type,
        ids=_ids(run, "traced_step"),
        inputs=run.get("inputs"),
    )
    return Traced(spec)


def traced_retrieval(
    name: str,
    *,
    collection: str | None = None,
    top_k: int | None = None,
    **run: Unpack[RunOptions],
) -> Traced[RetrievalSpec]:
    """Record every call as a search for documents.

    Arguments named `query`, `top_k` or `k`, and `collection` are recorded as that. A result that is a
    list gives the count, and ids and scores where its items have them; an empty one is visible, and
    `current_execution().set(degraded=True)` makes a degraded one visible.

    Raises:
        TypeError: no name was given, or an option that there is not.
    """
    spec = RetrievalSpec(
        _name(name, "traced_retrieval"),
        collection=collection,
        top_k=top_k,
        ids=_ids(run, "traced_retrieval"),
        inputs=run.get("inputs"),
    )
    return Traced(spec)


def _name(value: object, decorator: str) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f'{decorator} takes a name, as in @{decorator}("parsing"); got {value!r}')
    return _values.text(value, _values.SHORT_LIMIT)


def _ids(run: RunOptions, decorator: str) -> Ids:
    options: dict[str, Any] = {**run}
    options.pop("inputs", None)
    if unknown := sorted(set(options) - set(IDS)):
        import inspect  # only where something is wrong: it takes a while to load

        parameters = inspect.signature(globals()[decorator]).parameters.values()
        own = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        takes = ", ".join([*own, *IDS, "inputs"])
        raise TypeError(f"{decorator} has no option {', '.join(unknown)}; it takes {takes}")
    return given(options) if options else {}
