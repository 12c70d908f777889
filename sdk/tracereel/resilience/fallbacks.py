"""`@fallback`: call another function if a function fails or its confidence is too low."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from tracereel._redact import values
from tracereel.resilience.fallback_scope import FallbackPlan, FallbackScope
from tracereel.resilience.policy import ConfidenceOf
from tracereel.resilience.wrapped_functions import (
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
    """Call other functions with the same arguments if this one fails, until one succeeds.

    If all of them fail, the exception of the decorated function is raised with a note for each
    fallback. If it returned a result that was not good enough, that result is returned.

    Example:
        @traced_agent("parsing_agent")
        @fallback(to=parse_with_regex)
        @retry(attempts=3)
        def parse(prompt: str) -> Parsed: ...

    Args:
        to: a function, or several that are tried in order.
        on: exceptions that trigger the fallback.
        when: returns whether a result of the decorated function is not good enough.
        min_confidence: results below this are not good enough. The confidence is set with
            `current_execution().set(confidence=...)`, read from the result, or returned by
            `confidence_of(result)`.
        quality_delta_of: returns the change in quality from the primary's result (or None) and the
            fallback's result. Default: the difference of their confidences.
        reason: `trigger_reason` in the events. Default: derived from the outcome.
        agent: name of the primary in the events. Default: the decorated agent, or the surrounding
            one.

    Raises:
        TypeError: when decorating: generator functions, or a coroutine function as the fallback of
            a function that cannot await it.
        ValueError: when decorating: a confidence that is not a number.
    """
    targets = (to,) if callable(to) else tuple(to)
    if not targets or not all(callable(target) for target in targets):
        raise TypeError(f"fallback takes a function or a list of them; got {to!r}")
    plan = FallbackPlan(
        targets=targets,
        on=classes_of("on", on),
        when=when,
        min_confidence=(
            None if min_confidence is None else number_of("min_confidence", min_confidence)
        ),
        confidence_of=confidence_of,
        quality_delta_of=quality_delta_of,
        reason=values.label(reason),
    )

    name = values.label(agent)

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


def _sync(function: Function, plan: FallbackPlan, subject: Subject) -> Function:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with FallbackScope(plan, subject) as scope:
            for target in (None, *plan.targets):
                scope.begin(target)
                try:
                    result = (function if target is None else target)(*args, **kwargs)
                except BaseException as error:
                    if not scope.failed(error):
                        raise
                else:
                    if not scope.returned(result):
                        return result
            if scope.failure is not None:
                raise scope.failure
            return scope.primary_result

    return call


def _async(function: Function, plan: FallbackPlan, subject: Subject) -> Function:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with FallbackScope(plan, subject) as scope:
            for target in (None, *plan.targets):
                scope.begin(target)
                try:
                    result = (function if target is None else target)(*args, **kwargs)
                    if inspect.isawaitable(result):
                        result = await result
                except BaseException as error:
                    if not scope.failed(error):
                        raise
                else:
                    if not scope.returned(result):
                        return result
            if scope.failure is not None:
                raise scope.failure
            return scope.primary_result

    return call
