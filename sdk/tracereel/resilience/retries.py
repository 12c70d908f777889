"""`@retry`: repeat a call that fails, times out or has low confidence."""

import asyncio
import functools
import inspect
import time
from collections.abc import Callable
from typing import Any, Final

from tracereel._redact import values
from tracereel.resilience.attempt_loop import AttemptLoop
from tracereel.resilience.backoff import Strategy, exponential_backoff
from tracereel.resilience.policy import ConfidenceOf, Policy
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

Sleep = Callable[[float], Any]

_STRATEGY: Final = exponential_backoff()


def retry(
    attempts: int = 3,
    *,
    on: type[BaseException] | Classes = (Exception,),
    never: type[BaseException] | Classes = (),
    strategy: Strategy = _STRATEGY,
    timeout: float | None = None,
    min_confidence: float | None = None,
    confidence_of: ConfidenceOf | None = None,
    max_retry_after: float = 60.0,
    agent: str | None = None,
    sleep: Sleep | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Call a function, coroutine function or method up to `attempts` times until it succeeds.

    After the last attempt its exception is raised unchanged, or its result returned. Cancellation,
    `KeyboardInterrupt`, `GeneratorExit` and `SystemExit` are never retried.

    Example:
        @traced_agent("parsing_agent")
        @retry(attempts=3, on=ConnectionError, strategy=fixed_delay(0.5))
        async def parse(prompt: str) -> Parsed: ...

    Args:
        on: exceptions that are retried.
        never: exceptions among them that are not retried.
        strategy: delay between attempts; an exception with a `retry_after` may request more.
        timeout: seconds for each attempt of a coroutine function.
        min_confidence: results below this are retried. The confidence is set with
            `current_execution().set(confidence=...)`, which needs recording, or read from the
            result, or returned by `confidence_of(result)`.
        max_retry_after: an exception that requests a longer delay is not retried.
        agent: name in the events. Default: the decorated agent, or the surrounding one.
        sleep: replaces `time.sleep` or `asyncio.sleep`.

    Raises:
        TypeError: when decorating: a generator function, or a timeout for a function that cannot
            be interrupted.
        ValueError: when decorating: a number is out of range.
    """
    policy = Policy(
        attempts=_attempts(attempts),
        on=classes_of("on", on),
        never=classes_of("never", never),
        strategy=strategy,
        timeout=None if timeout is None else number_of("timeout", timeout, above=True),
        min_confidence=(
            None if min_confidence is None else number_of("min_confidence", min_confidence)
        ),
        confidence_of=confidence_of,
        max_retry_after=number_of("max_retry_after", max_retry_after),
    )
    name = values.label(agent)

    def wrap(function: Function) -> Function:
        refuse_generators(function, "retry")
        subject = Subject.of(function, name)
        if is_async(function):
            return _async(function, policy, subject, _sleep_async if sleep is None else sleep)
        if timeout is not None:
            raise TypeError(
                f"retry(timeout=...) is for coroutine functions; {function!r} cannot be"
                " interrupted: have it raise TimeoutError itself, which is retried"
            )
        return _sync(function, policy, subject, _sleep if sleep is None else sleep)

    return lambda function: decorating(wrap, function)


def _sync(function: Function, policy: Policy, subject: Subject, sleep: Sleep) -> Function:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with AttemptLoop(policy, subject) as run:
            while True:
                run.begin()
                try:
                    result = function(*args, **kwargs)
                except BaseException as error:
                    if (delay := run.failed(error)) is None:
                        raise
                else:
                    if (delay := run.returned(result)) is None:
                        return result
                sleep(delay)

    return call


def _async(function: Function, policy: Policy, subject: Subject, sleep: Sleep) -> Function:
    limit = policy.timeout

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with AttemptLoop(policy, subject) as run:
            while True:
                run.begin()
                try:
                    if limit is None:
                        result = await function(*args, **kwargs)
                    else:
                        async with asyncio.timeout(limit) as deadline:
                            run.limit(deadline)
                            result = await function(*args, **kwargs)
                except BaseException as error:
                    if (delay := run.failed(error)) is None:
                        raise
                else:
                    if (delay := run.returned(result)) is None:
                        return result
                waiting = sleep(delay)
                if inspect.isawaitable(waiting):
                    await waiting

    return call


def _sleep(seconds: float) -> None:
    # Looked up on each call, because a replay replaces `time.sleep`.
    time.sleep(seconds)


async def _sleep_async(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _attempts(value: object) -> int:
    if callable(value):
        raise TypeError("retry is called before it decorates, as in @retry() or @retry(5)")
    number = values.count(value)
    if not number:
        raise ValueError(f"attempts is a whole number from 1; got {value!r}")
    return number
