"""The decorators: an agent or pipeline function, wrapped so that every call is recorded.

The wrapped call returns, raises and is cancelled exactly as the bare one.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from tracereel import _guard, _recorder, _values
from tracereel._recorder import Recorder
from tracereel._scope import (
    AgentScope,
    AgentSpec,
    Arguments,
    PipelineScope,
    PipelineSpec,
    Scope,
)

P = ParamSpec("P")
R = TypeVar("R")


class _Opener(Protocol):
    def __call__(self, recorder: Recorder, arguments: Arguments, /) -> Scope: ...


def traced_agent(
    name: str,
    *,
    version: str | None = None,
    llm_provider: str | None = None,
    llm_model: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Record every call of a function, coroutine function or method as an execution of an agent.

    Example:
        @traced_agent("parsing_agent", version="1.0.0")
        async def parse(prompt: str) -> Parsed: ...

    Raises:
        TypeError: when decorating: no name was given, or the function is a generator.
    """
    spec = AgentSpec(
        name=_name(name, "traced_agent"),
        version=_values.label(version),
        llm_provider=_values.label(llm_provider),
        llm_model=_values.label(llm_model),
        temperature=_values.real(temperature),
        max_tokens=_values.count(max_tokens),
    )
    return _decorator(lambda recorder, arguments: AgentScope(recorder, spec, arguments))


def traced_pipeline(
    pipeline_type: str, *, agents: Iterable[str] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Record every call of a function, coroutine function or method as a run of a pipeline.

    The agents called inside are counted, also in tasks and threads that copy the context. Arguments
    named `user_prompt` or `prompt`, `user_timezone` or `timezone`, and `user_id` are recorded as
    what they are called.

    Args:
        agents: names of the agents, in the order in which they are meant to run.

    Raises:
        TypeError: when decorating: no type was given, or the function is a generator.
    """
    spec = PipelineSpec(
        pipeline_type=_name(pipeline_type, "traced_pipeline"),
        agents=None if agents is None else tuple(_values.label(name) or "" for name in agents),
    )
    return _decorator(lambda recorder, arguments: PipelineScope(recorder, spec, arguments))


def _name(value: object, decorator: str) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f'{decorator} takes a name, as in @{decorator}("parsing"); got {value!r}')
    return _values.text(value, _values.SHORT_LIMIT)


def _decorator(opener: _Opener) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if isinstance(function, (staticmethod, classmethod)):
            return cast("Callable[P, R]", type(function)(_wrap(function.__func__, opener)))
        return cast("Callable[P, R]", _wrap(function, opener))

    return decorate


def _wrap(function: Callable[..., Any], opener: _Opener) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"generator functions cannot be traced yet: {function!r}")
    names, skip = _parameters(function)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Scope | None:
        recorder = _recorder.active()
        if recorder is None:
            return None
        try:
            return opener(recorder, Arguments(names, skip, args, kwargs))
        except Exception as error:  # noqa: BLE001
            _guard.report("begin", error)
            return None

    if _is_async(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            scope = begin(args, kwargs)
            if scope is None:
                return await function(*args, **kwargs)
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                scope.fail(error)
                raise
            scope.complete(result)
            return result

        return call_async

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        scope = begin(args, kwargs)
        if scope is None:
            return function(*args, **kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            scope.fail(error)
            raise
        scope.complete(result)
        return result

    return call


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - objects whose call is a coroutine
    )


def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], int]:
    """The names of positional parameters, and how many to leave out of what is recorded."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # builtins without a signature
        return (), 0
    names = tuple(
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    )
    return names, 1 if names[:1] in (("self",), ("cls",)) else 0
