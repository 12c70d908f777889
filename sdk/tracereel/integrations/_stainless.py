"""Hooks for the clients of Anthropic and OpenAI, which share a code generator (Stainless).

Every call passes through the client's `request`, a response through `_process_response`, and a
retry through `_sleep_for_retry` and `_calculate_retry_timeout`. The hooks are set on one client or
on its class. If a client lacks one of the inner methods, the data of that hook is not recorded.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tracereel._runtime import guard
from tracereel.integrations import _bodies, _client_hooks, _compat, _packages
from tracereel.integrations._client_hooks import ClientWork, Hook, Original
from tracereel.integrations._dialects import Dialect
from tracereel.integrations._model_call import ModelCall, begin, retry_reason
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.resilience.backoff import EXPONENTIAL
from tracereel.resilience.wrapped_functions import error_text

ClientT = TypeVar("ClientT")

_NOT_GIVEN: Final = frozenset({"NotGiven", "Omit"})
"""Classes of options that are not part of the request."""
RETRY_AFTER: Final = "retry_after"
"""Strategy of a retry whose delay the server specified."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Recording settings of a client."""

    routes: Mapping[str, Dialect]
    """Request path → dialect; other paths are not recorded."""
    provider: Callable[[Any], str]
    """Returns the provider name of a client for events."""
    memory: ToolMemory = field(default_factory=ToolMemory)

    def begin(self, client: Any, options: Any) -> ModelCall | None:
        """Begin a model call, or return `None` if the request is not recorded."""
        if options.method != "post" and str(options.method).lower() != "post":
            return None
        dialect = self.routes.get(options.url)
        if dialect is None:
            dialect = self.routes.get(str(options.url).partition("?")[0])
            if dialect is None:
                return None
        body, more = options.json_data, getattr(options, "extra_json", None)
        if isinstance(body, dict):
            body = {**body, **(more or {})}
            for name in [each for each in body if type(body[each]).__name__ in _NOT_GIVEN]:
                del body[name]
        return begin(dialect, body, provider=self.provider(client), memory=self.memory)


def wrap(client: ClientT, package: str, expected: str, recording: Recording) -> ClientT:
    """Record the calls of one client and of its copies; return the same client.

    Raises:
        TypeError: it is not a client of the package.
    """
    names = {each.__module__.partition(".")[0] for each in type(client).__mro__}
    if package not in names or not hasattr(client, "request"):
        raise TypeError(f"wrap takes a client, {expected}; got {_packages.kind_of(client)}")
    _packages.warn_if_old(package)
    return _client_hooks.wrap(client, hooks_of(type(client)) | _COPIES, recording)


def unwrap(client: ClientT) -> ClientT:
    """Stop recording a client; return the same client."""
    return _client_hooks.unwrap(client, hooks_of(type(client)) | _COPIES)


def hooks_of(kind: type) -> dict[str, Hook]:
    """Return the hooks of a sync or async client class."""
    return _ASYNC_HOOKS if hasattr(kind, "__aenter__") else _HOOKS


def _request(
    recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    work = _begun(recording, client, *args, **kwargs)
    if work is None:
        return original(client, *args, **kwargs)
    with work:
        return work.returned(original(client, *args, **kwargs))


async def _request_async(
    recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    work = _begun(recording, client, *args, **kwargs)
    if work is None:
        return await original(client, *args, **kwargs)
    with work:
        return work.returned(await original(client, *args, **kwargs))


def _process_response(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    _responded(kwargs)
    return original(client, *args, **kwargs)


async def _process_response_async(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    _responded(kwargs)
    return await original(client, *args, **kwargs)


def _sleep(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    work = _waits(kwargs)
    original(client, *args, **kwargs)
    if work is not None:
        work.call.resumed()


async def _sleep_async(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    work = _waits(kwargs)
    await original(client, *args, **kwargs)
    if work is not None:
        work.call.resumed()


def _delay(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    delay = original(client, *args, **kwargs)
    if (work := StainlessWork.current()) is not None:
        with guard.Guard("client_retry"):
            work.delayed(delay)
    return delay


def _copy(
    recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    copy = original(client, *args, **kwargs)
    if recording is not None:
        with guard.Guard("client_copy"):
            _client_hooks.wrap(copy, hooks_of(type(copy)) | _COPIES, recording)
    return copy


_HOOKS: Final[dict[str, Hook]] = {
    "request": _request,
    "_process_response": _process_response,
    "_sleep_for_retry": _sleep,
    "_calculate_retry_timeout": _delay,
}
_ASYNC_HOOKS: Final[dict[str, Hook]] = {
    "request": _request_async,
    "_process_response": _process_response_async,
    "_sleep_for_retry": _sleep_async,
    "_calculate_retry_timeout": _delay,
}
_COPIES: Final[dict[str, Hook]] = {"copy": _copy, "with_options": _copy}


class StainlessWork(ClientWork):
    """Call of an Anthropic or OpenAI client in progress."""

    __slots__ = ("_failure", "_is_watched", "_response")

    def __init__(self, call: ModelCall, client: Any) -> None:
        super().__init__(call, _compat.stainless_http(client))
        self._response: Any = None
        self._is_watched = False
        self._failure: tuple[str, str, Any, int | None] | None = None

    def responded(self, response: Any) -> None:
        """Read the headers of a response and observe its unread body."""
        self._response = response
        self.call.headers(response.headers)
        if not self.call.ended and not response.is_closed and response.is_success:
            self._is_watched = True
            _bodies.watch(response, self.call, self.adapter)

    def waits(self, response: Any, error: BaseException | None, attempts: int | None) -> None:
        """Keep the error of a failed attempt until its delay is known."""
        message, reason = "the attempt failed", retry_reason(None, None)
        if response is not None:
            self.call.headers(response.headers)
            message = f"{response.status_code} {response.reason_phrase}".strip()
            reason = retry_reason(None, response.status_code)
        elif error is not None:
            message, reason = error_text(error), retry_reason(error, None)
        self._response = None
        self._failure = message, reason, response, attempts

    def delayed(self, delay: float) -> None:
        """Record a retry with its delay."""
        if self._failure is None:
            return
        message, reason, response, attempts = self._failure
        self._failure = None
        headers = response.headers if response is not None else {}
        named = "retry-after" in headers or "retry-after-ms" in headers
        self.call.retried(
            error=message,
            reason=reason,
            strategy=RETRY_AFTER if named else EXPONENTIAL,
            delay=delay,
            attempts=attempts,
        )

    def returned(self, result: Any) -> Any:
        """Complete the call, unless its body is still to be read; return the result."""
        if self._is_watched or self.call.ended:
            return result
        try:
            body = self._response.content if self._response is not None else b""
            answer = _bodies.decoded(body)
            self.call.answered(result if answer is None else answer)
        except Exception as error:  # noqa: BLE001 - inlined guard, for speed
            guard.report("client_answer", error)
        return result


def _begun(
    recording: Recording | None,
    client: Any,
    cast_to: Any,  # noqa: ARG001 - a parameter of the client's method
    options: Any,
    *_args: Any,
    **_kwargs: Any,
) -> StainlessWork | None:
    if recording is None:
        return None
    try:
        call = recording.begin(client, options)
        return None if call is None else StainlessWork(call, client)
    except Exception as error:  # noqa: BLE001
        guard.report("client_call", error)
        return None


def _responded(arguments: dict[str, Any]) -> None:
    work, response = StainlessWork.current(), arguments.get("response")
    if work is not None and response is not None:
        try:
            work.responded(response)
        except Exception as error:  # noqa: BLE001 - inlined guard, for speed
            guard.report("client_answer", error)


def _waits(arguments: dict[str, Any]) -> StainlessWork | None:
    work = StainlessWork.current()
    if work is not None:
        with guard.Guard("client_retry"):
            limit = arguments.get("max_retries")
            attempts = limit + 1 if isinstance(limit, int) else None
            work.waits(arguments.get("response"), sys.exc_info()[1], attempts)
    return work
