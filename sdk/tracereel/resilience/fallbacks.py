"""`@fallback`: when a function fails, or is not sure enough, another one takes over."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from tracereel import _values
from tracereel.resilience._functions import (
    Classes,
    Function,
    P,
    R,
    Subject,
    classes_of,
    decorating,
    is_async,
    number_of,
    refuse_generators,
)
from tracereel.resilience._policy import ConfidenceOf
from tracereel.resilience._takeover import Plan
from tracereel.resilience._unrecorded import takeover_of


def fallback(
    to: Function | Iterable[Function],
    *,
    on: type[BaseException] | Classes = (Exception,),
    when: Callable[[Any], bool] | None = None,
    min_confidence: float | None = None,
    confidence_of: ConfidenceOf | None = None,
    quality_delta_of: Callable[[Any, Any], float | None] | None = None,
    reason: str | None = None,
    agent: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Call another function with the same arguments when this one fails; the first good one counts.

    When all of them fail, the exception of the decorated function is raised, with a note for each
    fallback; where it had returned something that was not good enough, that is returned.

    Example:
        @traced_agent("parsing_agent")
        @fallback(to=parse_with_regex)
        @retry(attempts=3)
        def parse(prompt: str) -> Parsed: ...

    Args:
        to: a function, or several to be tried in turn.
        on: exceptions that make the fallback take over.
        when: whether a result of the decorated function is not good enough.
        min_confidence: results below this are not good enough. The confidence is that set with
            `current_execution().set(confidence=...)`, or what `confidence_of(result)` gives.
        quality_delta_of: the change in quality, from the primary's result (or null) and the
            fallback's; else it is the difference of their confidences.
        reason: `trigger_reason` in the events; else found out.
        agent: name of the primary in the events; else the agent decorated, or the agent around.

    Raises:
        TypeError: when decorating: generator functions, or a coroutine function as the fallback of
            a function that cannot await it.
        ValueError: when decorating: a confidence that is no number.
    """
    targets = (to,) if callable(to) else tuple(to)
    if not targets or not all(callable(target) for target in targets):
        raise TypeError(f"fallback takes a function or a list of them; got {to!r}")
    plan = Plan(
        targets=targets,
        on=classes_of("on", on),
        when=when,
        min_confidence=(
            None if min_confidence is None else number_of("min_confidence", min_confidence)
        ),
        confidence_of=confidence_of,
        quality_delta_of=quality_delta_of,
        reason=_values.label(reason),
    )

    name = _values.label(agent)

    def wrap(function: Function) -> Function:
        for each in (function, *targets):
            refuse_generators(each, "fallback")
        if is_async(function):
            return _async(function, plan, Subject.of(function, name))
        for target in targets:
            if is_async(target):
                raise TypeError(
                    f"{function!r} is not a coroutine function, its fallback is: {target!r}"
                )
        return _sync(function, plan, Subject.of(function, name))

    return lambda function: decorating(wrap, function)


def _sync(function: Function, plan: Plan, subject: Subject) -> Function:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = None
        with takeover_of(plan, subject) as takeover:
            takeover.begin()
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                if not takeover.primary_failed(error):
                    raise
            else:
                if not takeover.primary_returned(result):
                    return result
            for target in plan.targets:
                takeover.begin(target)
                try:
                    substitute = target(*args, **kwargs)
                except BaseException as error:
                    if not takeover.fallback_failed(error):
                        raise
                else:
                    takeover.fallback_returned(substitute)
                    return substitute
            if takeover.failure is not None:
                raise takeover.failure
            return result

    return call


def _async(function: Function, plan: Plan, subject: Subject) -> Function:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        result = None
        with takeover_of(plan, subject) as takeover:
            takeover.begin()
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                if not takeover.primary_failed(error):
                    raise
            else:
                if not takeover.primary_returned(result):
                    return result
            for target in plan.targets:
                takeover.begin(target)
                try:
                    substitute = target(*args, **kwargs)
                    if inspect.isawaitable(substitute):
                        substitute = await substitute
                except BaseException as error:
                    if not takeover.fallback_failed(error):
                        raise
                else:
                    takeover.fallback_returned(substitute)
                    return substitute
            if takeover.failure is not None:
                raise takeover.failure
            return result

    return call
