"""Time limit of a traced coroutine function."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from tracereel._core import error_details


def limited(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """Return a coroutine function that is cancelled after this time and raises TimeoutError."""

    @functools.wraps(function)
    async def call_limited(*args: Any, **kwargs: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # another event loop, such as trio's: the limit is only marked
            return await function(*args, **kwargs)
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return await function(*args, **kwargs)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            late = TimeoutError(f"no result within {seconds:g} s")
            error_details.mark_limit(late, seconds)
            raise late from error

    return call_limited
