"""Hooks for the clients of Anthropic and OpenAI, which share a code generator (Stainless).

Every call passes through the client's `request`, a response through `_process_response`, and a
retry through `_sleep_for_retry` and `_calculate_retry_timeout`. The hooks are set on one client or
on its class. If a client lacks one of the inner methods, the data of that hook is not recorded.
"""

import functools
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tracereel._runtime import guard
from tracereel.integrations import _bodies, _packages, _taped_http
from tracereel.integrations._dialects import Dialect
from tracereel.integrations._model_call import ModelCall, begin
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.providers.streams import adapter_for
from tracereel.providers.streams.base import StreamAdapter
from tracereel.resilience.backoff import EXPONENTIAL
from tracereel.resilience.policy import ERROR, TIMEOUT, is_timeout
from tracereel.resilience.wrapped_functions import error_text

ClientT = TypeVar("ClientT")
Original = Callable[..., Any]

RATE_LIMITED: Final = "rate_limited"
RETRY_AFTER: Final = "retry_after"
"""Strategy of a retry whose delay the server specified."""
_MARK: Final = "_tracereel_recording"
_COPIES: Final = ("copy", "with_options")
_INSIDE: Final = ("_process_response", "_sleep_for_retry", "_calculate_retry_timeout")


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
        if more and isinstance(body, dict):
            body = {**body, **more}
        return begin(dialect, body, provider=self.provider(client), memory=self.memory)


def check(client: object, package: str, expected: str) -> None:
    """Check that an object is a client of a package.

    Raises:
        TypeError: it is not.
    """
    names = {each.__module__.partition(".")[0] for each in type(client).__mro__}
    if package not in names or not hasattr(client, "request"):
        raise TypeError(f"wrap takes a client, {expected}; got {_packages.kind_of(client)}")


def wrap(client: ClientT, recording: Recording) -> ClientT:
    """Record the calls of one client and of its copies."""
    kind = type(client)
    own = vars(client)
    if _MARK in own:
        unwrap(client)
    own[_MARK] = recording
    hooks = _hooks_for(kind)
    for name, hook in hooks.items():
        if hasattr(kind, name):
            own[name] = _on_instance(client, getattr(kind, name), hook)
    for name in _COPIES:
        own[name] = _on_instance(client, getattr(kind, name), _copy)
    return client


def unwrap(client: ClientT) -> ClientT:
    """Stop recording a client; calls in progress are recorded to their end."""
    own = vars(client)
    if own.pop(_MARK, None) is not None:
        for name in ("request", *_INSIDE, *_COPIES):
            own.pop(name, None)
    return client


class ClientPatches:
    """Hooks on classes, and the original methods."""

    def __init__(self) -> None:
        self._before: list[tuple[type, str, Any]] = []

    def apply(self, classes: tuple[type, ...], recording: Recording) -> None:
        """Record the calls of every client of these classes, existing and new."""
        if self._before:
            return
        for kind in classes:
            for name, hook in _hooks_for(kind).items():
                owner = next((each for each in kind.__mro__ if name in vars(each)), None)
                if owner is None or any(
                    (owner, name) == (known, other) for known, other, _ in self._before
                ):
                    continue
                original = vars(owner)[name]
                self._before.append((owner, name, original))
                setattr(owner, name, _on_class(original, hook, recording))

    def undo(self) -> None:
        """Restore the original methods."""
        while self._before:
            owner, name, original = self._before.pop()
            setattr(owner, name, original)


def _hooks_for(kind: type) -> dict[str, "Hook"]:
    """Return the hooks of a sync or async client class."""
    is_async = hasattr(kind, "__aenter__")
    return _ASYNC_HOOKS if is_async else _HOOKS


Hook = Callable[..., Any]
"""Function called with the recording, the original method, the client and the arguments."""


def _on_instance(client: Any, original: Original, hook: Hook) -> Original:
    # This creates a reference cycle; the client's resources create one anyway at first use.
    if hook in _AWAITED:

        @functools.wraps(original)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await hook(vars(client).get(_MARK), original, client, *args, **kwargs)

        return call_async

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return hook(vars(client).get(_MARK), original, client, *args, **kwargs)

    return call


def _on_class(original: Original, hook: Hook, recording: Recording) -> Original:
    if hook in _AWAITED:

        @functools.wraps(original)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            # A client that was wrapped itself has its own hooks.
            mine = None if _MARK in vars(self) else recording
            return await hook(mine, original, self, *args, **kwargs)

        return call_async

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        mine = None if _MARK in vars(self) else recording
        return hook(mine, original, self, *args, **kwargs)

    return call


def _request(
    recording: Recording | None,
    original: Original,
    client: Any,
    cast_to: Any,
    options: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    work = _begun(recording, client, options)
    if work is None:
        return original(client, cast_to, options, *args, **kwargs)
    try:
        result = original(client, cast_to, options, *args, **kwargs)
    except BaseException as error:
        work.failed(error)
        raise
    else:
        work.returned(result)
        return result
    finally:
        work.rests()


async def _request_async(
    recording: Recording | None,
    original: Original,
    client: Any,
    cast_to: Any,
    options: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    work = _begun(recording, client, options)
    if work is None:
        return await original(client, cast_to, options, *args, **kwargs)
    try:
        result = await original(client, cast_to, options, *args, **kwargs)
    except BaseException as error:
        work.failed(error)
        raise
    else:
        work.returned(result)
        return result
    finally:
        work.rests()


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
    work = _current.get()
    if work is not None:
        with guard.Guard("client_retry"):
            work.delayed(delay)
    return delay


def _copy(
    recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    copy = original(client, *args, **kwargs)
    if recording is not None:
        with guard.Guard("client_copy"):
            wrap(copy, recording)
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
_AWAITED: Final = frozenset({_request_async, _process_response_async, _sleep_async})


class StainlessWork:
    """Client call in progress."""

    __slots__ = ("_exchange", "_failure", "_is_watched", "_response", "_token", "call")

    def __init__(self, call: ModelCall, client: Any) -> None:
        self.call = call
        self._exchange = _taped_http.begin(call, vars(client).get("_client"))
        self._response: Any = None
        self._is_watched = False
        self._failure: tuple[str, str, Any, int | None] | None = None
        self._token = _current.set(self)

    def responded(self, response: Any) -> None:
        """Read the headers of a response and observe its unread body."""
        self._response = response
        self.call.headers(response.headers)
        if not self.call.ended and not response.is_closed and response.is_success:
            self._is_watched = True
            _bodies.watch(response, self.call, self._adapter)

    def waits(self, response: Any, error: BaseException | None, attempts: int | None) -> None:
        """Keep the error of a failed attempt until its delay is known."""
        reason, told = ERROR, "the attempt failed"
        if response is not None:
            self.call.headers(response.headers)
            told = f"{response.status_code} {response.reason_phrase}".strip()
            reason = RATE_LIMITED if response.status_code == 429 else ERROR
            reason = TIMEOUT if response.status_code in (408, 504) else reason
        elif error is not None:
            told = error_text(error)
            reason = TIMEOUT if is_timeout(error) or "Timeout" in type(error).__name__ else ERROR
        self._response = None
        self._failure = told, reason, response, attempts

    def delayed(self, delay: float) -> None:
        """Record a retry with its delay."""
        if self._failure is None:
            return
        told, reason, response, attempts = self._failure
        self._failure = None
        headers = response.headers if response is not None else {}
        named = "retry-after" in headers or "retry-after-ms" in headers
        self.call.retried(
            error=told,
            reason=reason,
            strategy=RETRY_AFTER if named else EXPONENTIAL,
            delay=delay,
            attempts=attempts,
        )

    def returned(self, result: Any) -> None:
        """Complete the call, unless its body is still to be read."""
        if self._is_watched or self.call.ended:
            return
        try:
            response = self._response
            body = response.content if response is not None else b""
            answer = _bodies.decoded(body)
            self.call.answered(result if answer is None else answer)
        except Exception as error:  # noqa: BLE001 - inlined guard, for speed
            guard.report("client_answer", error)

    def failed(self, error: BaseException) -> None:
        """Fail the call."""
        with guard.Guard("client_answer"):
            self.call.failed(error)

    def rests(self) -> None:
        """Restore the context after the client's method."""
        try:
            self.call.detach()
            _taped_http.end(self._exchange)
            try:
                _current.reset(self._token)
            except ValueError:
                pass  # the coroutine was closed in another context
        except Exception as error:  # noqa: BLE001 - inlined guard, for speed
            guard.report("client_answer", error)

    def _adapter(self, clock: Callable[[], float]) -> StreamAdapter:
        call = self.call
        return adapter_for(call.dialect.provider, model=call.model, keep_raw=False, clock=clock)


_current: ContextVar[StainlessWork | None] = ContextVar("tracereel_client_work", default=None)


def _begun(recording: Recording | None, client: Any, options: Any) -> StainlessWork | None:
    if recording is None:
        return None
    try:
        call = recording.begin(client, options)
        return None if call is None else StainlessWork(call, client)
    except Exception as error:  # noqa: BLE001
        guard.report("client_call", error)
        return None


def _responded(arguments: dict[str, Any]) -> None:
    work, response = _current.get(), arguments.get("response")
    if work is not None and response is not None:
        try:
            work.responded(response)
        except Exception as error:  # noqa: BLE001 - inlined guard, for speed
            guard.report("client_answer", error)


def _waits(arguments: dict[str, Any]) -> StainlessWork | None:
    work = _current.get()
    if work is not None:
        with guard.Guard("client_retry"):
            limit = arguments.get("max_retries")
            attempts = limit + 1 if isinstance(limit, int) else None
            work.waits(arguments.get("response"), sys.exc_info()[1], attempts)
    return work
