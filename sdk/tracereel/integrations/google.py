"""Google integration: records calls of the `google-genai` client as model calls.

    from tracereel.integrations.google import wrap
    client = wrap(genai.Client())

`client.aio`, chats, streams, decisions and automatic function calling are recorded too. `unwrap(client)`
stops recording.
"""

import json
import re
import time
from collections.abc import Generator
from typing import Any, Final, TypeVar

from tracereel._runtime import guard
from tracereel.integrations import _client_hooks, _compat, _packages
from tracereel.integrations._bodies import ChunkBody, decoded, followed, followed_async, watch
from tracereel.integrations._client_hooks import ClientWork, Hook, Original
from tracereel.integrations._dialects import GOOGLE, GOOGLE_DECISIONS, GOOGLE_EMBEDDINGS
from tracereel.integrations._model_call import ModelCall, begin, retry_reason
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.resilience.backoff import EXPONENTIAL
from tracereel.resilience.wrapped_functions import error_text

ClientT = TypeVar("ClientT")

_PATH: Final = re.compile(r"models/(?P<model>[^/:?]+):(?P<method>\w+)")
_METHODS: Final = {
    "generateContent": GOOGLE,
    "streamGenerateContent": GOOGLE,
    "embedContent": GOOGLE_EMBEDDINGS,
    "batchEmbedContents": GOOGLE_EMBEDDINGS,
}
_patches: Final = _client_hooks.ClassHooks()


class GoogleWork(ClientWork):
    """Call of a google-genai client in progress."""

    __slots__ = ("_failed_at", "_failure")

    def __init__(self, call: ModelCall, http: Any) -> None:
        super().__init__(call, http)
        self._failure: BaseException | None = None
        self._failed_at = 0.0

    def attempt(self) -> None:
        """Record a retry if the previous attempt failed."""
        error, self._failure = self._failure, None
        if error is None:
            return
        with guard.Guard("client_retry"):
            self.call.retried(
                error=error_text(error),
                reason=retry_reason(error, getattr(error, "code", None)),
                strategy=EXPONENTIAL,
                # Measured, because the client does not expose the delay.
                delay=time.monotonic() - self._failed_at,
                attempts=None,
            )

    def attempt_failed(self, error: BaseException) -> None:
        """Keep the error of a failed attempt until the next one starts."""
        self._failure, self._failed_at = error, time.monotonic()

    def returned(self, response: Any) -> Any:
        """Complete the call with a whole response; return it."""
        with guard.Guard("client_answer"):
            self.call.headers(response.headers)
            body = response.body or ""
            answer = decoded(body)
            if answer is None and body:
                try:
                    json.loads(body)
                except ValueError as error:
                    # The client parses the body later and raises the same error.
                    self.call.failed(error)
                    return response
            self.call.answered(answer)
        return response


def _begun(
    memory: ToolMemory | None, api: Any, path: str, rest: tuple[Any, ...], *, is_async: bool
) -> GoogleWork | None:
    if memory is None:
        return None
    try:
        found = _PATH.search(path)
        dialect = _METHODS.get(found["method"]) if found else None
        if found is None or dialect is None:
            return None
        call = begin(dialect, rest[0] if rest else None, model=found["model"], memory=memory)
        http = _compat.google_http(api, is_async=is_async)
        return None if call is None else GoogleWork(call, http)
    except Exception as error:  # noqa: BLE001
        guard.report("client_call", error)
        return None


def _request(memory: Any, original: Original, api: Any, method: str, path: str, *rest: Any) -> Any:
    work = _begun(memory, api, path, rest, is_async=False)
    if work is None:
        return original(api, method, path, *rest)
    with work:
        return work.returned(original(api, method, path, *rest))


async def _request_async(
    memory: Any, original: Original, api: Any, method: str, path: str, *rest: Any
) -> Any:
    work = _begun(memory, api, path, rest, is_async=True)
    if work is None:
        return await original(api, method, path, *rest)
    with work:
        return work.returned(await original(api, method, path, *rest))


def _stream(
    memory: Any, original: Original, api: Any, method: str, path: str, *rest: Any
) -> Generator[Any, None, None]:
    inner = original(api, method, path, *rest)
    work = _begun(memory, api, path, rest, is_async=False)
    if work is None:
        yield from inner
        return
    try:
        # Once the request has been answered, the program's code runs between the chunks.
        yield from followed(inner, ChunkBody(work.call, work.adapter), work.rests)
    finally:
        work.rests()


async def _stream_async(
    memory: Any, original: Original, api: Any, method: str, path: str, *rest: Any
) -> Any:
    work = _begun(memory, api, path, rest, is_async=True)
    if work is None:
        return await original(api, method, path, *rest)
    with work:
        inner = await original(api, method, path, *rest)
    return followed_async(inner, ChunkBody(work.call, work.adapter))


def _once(_memory: Any, original: Original, api: Any, *args: Any, **kwargs: Any) -> Any:
    work = GoogleWork.current()
    if work is None:
        return original(api, *args, **kwargs)
    work.attempt()
    try:
        return original(api, *args, **kwargs)
    except BaseException as error:
        work.attempt_failed(error)
        raise


async def _once_async(_memory: Any, original: Original, api: Any, *args: Any, **kwargs: Any) -> Any:
    work = GoogleWork.current()
    if work is None:
        return await original(api, *args, **kwargs)
    work.attempt()
    try:
        return await original(api, *args, **kwargs)
    except BaseException as error:
        work.attempt_failed(error)
        raise


_HOOKS: Final[dict[str, Hook]] = {
    "request": _request,
    "async_request": _request_async,
    "request_streamed": _stream,
    "async_request_streamed": _stream_async,
    "_request_once": _once,
    "_async_request_once": _once_async,
}


def _decide(memory: Any, original: Original, resource: Any, *args: Any, **kwargs: Any) -> Any:
    work = _request_of(memory, resource, kwargs, is_async=False)
    if work is None:
        return original(resource, *args, **kwargs)
    with work:
        return _decided(work, original(resource, *args, **kwargs))


async def _decide_async(
    memory: Any, original: Original, resource: Any, *args: Any, **kwargs: Any
) -> Any:
    work = _request_of(memory, resource, kwargs, is_async=True)
    if work is None:
        return await original(resource, *args, **kwargs)
    with work:
        return _decided(work, await original(resource, *args, **kwargs))


def _request_of(
    memory: ToolMemory | None, resource: Any, body: dict[str, Any], *, is_async: bool
) -> GoogleWork | None:
    if memory is None:
        return None
    try:
        model = str(body.get("model") or "").removeprefix("models/")
        call = begin(GOOGLE_DECISIONS, body, model=model or None, memory=memory)
        http = getattr(resource.sdk_configuration, "async_client" if is_async else "client", None)
        return None if call is None else GoogleWork(call, http)
    except Exception as error:  # noqa: BLE001
        guard.report("client_call", error)
        return None


def _decided(work: GoogleWork, result: Any) -> Any:
    with guard.Guard("client_answer"):
        # A raw response has the HTTP response; that of a streaming one is unread.
        response = getattr(result, "http_response", None)
        if response is None:
            work.call.answered(result)
            return result
        work.call.headers(response.headers)
        if not response.is_closed:
            watch(response, work.call, work.adapter)
        elif (answer := decoded(response.content)) is not None:
            work.call.answered(answer)
        else:
            work.call.nothing()
    return result


_DECISIONS: Final[dict[str, Hook]] = {"create": _decide}
_ASYNC_DECISIONS: Final[dict[str, Hook]] = {"create": _decide_async}


def _decisions_of(client: Any) -> list[tuple[Any, dict[str, Hook]]]:
    """Return the resources of a client that decide, with their hooks; none in old versions."""
    try:
        return [(client.decisions, _DECISIONS), (client.aio.decisions, _ASYNC_DECISIONS)]
    except Exception:  # noqa: BLE001 - missing, or this client cannot be used for decisions
        return []


def wrap(client: ClientT) -> ClientT:
    """Record the calls of one client; return the same client.

    Raises:
        TypeError: it is not a google-genai client.
    """
    api = _api(client)
    _packages.warn_if_old("google")
    memory = ToolMemory()
    _client_hooks.wrap(api, _HOOKS, memory)
    for resource, hooks in _decisions_of(client):
        _client_hooks.wrap(resource, hooks, memory)
    return client


def unwrap(client: ClientT) -> ClientT:
    """Stop recording a client; return the same client."""
    _client_hooks.unwrap(_api(client), _HOOKS)
    for resource, hooks in _decisions_of(client):
        _client_hooks.unwrap(resource, hooks)
    return client


def instrument() -> None:
    """Record the calls of all google-genai clients in this process until `uninstrument`."""
    api_client = _compat.google_api_client()
    _packages.warn_if_old("google")
    hooks: dict[type, dict[str, Hook]] = {api_client: _HOOKS}
    if (kinds := _compat.google_decisions()) is not None:
        hooks |= {kinds[0]: _DECISIONS, kinds[1]: _ASYNC_DECISIONS}
    _patches.apply(hooks, ToolMemory())


def uninstrument() -> None:
    """Undo `instrument`."""
    _patches.undo()


def _api(client: Any) -> Any:
    api = _compat.google_api(client)
    if not hasattr(api, "request_streamed"):
        kind = _packages.kind_of(client)
        raise TypeError(f"wrap takes a client, google.genai.Client; got {kind}")
    return api
