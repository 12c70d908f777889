"""HTTP exchange of a wrapped client as a tape boundary: recorded, or served without network.

The boundary is the call from the client to httpx. A tape returns the provider's original response,
so the client builds the same typed objects, streams, errors and retries from it. This code runs
only while a tape is recorded or played.
"""

import re
import sys
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tracereel.integrations._model_call import ModelCall
from tracereel.tape import NotAllowedError, boundary

_MODEL_IN_PATH: Final = re.compile(r"/models/[^/:]+")
_LEFT_OUT: Final = frozenset(
    {"connection", "content-encoding", "content-length", "date", "keep-alive", "server"}
    | {"set-cookie", "transfer-encoding"}
)
"""Headers of the connection or of an encoded body; the tape keeps bodies decoded."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Request that a wrapped client is about to send."""

    name: str
    around: Any
    """Execution in which the call is made."""


_current: ContextVar[Exchange | None] = ContextVar("tracereel_exchange", default=None)


def begin(call: ModelCall, http: Any) -> Token[Exchange | None] | None:
    """Begin a call whose requests use this httpx client; return `None` without a tape."""
    if http is None or not call.is_taped:
        return None
    _install(http)
    return _current.set(Exchange(f"{call.provider} {call.dialect.operation}", call.around))


def end(token: Token[Exchange | None] | None) -> None:
    """Restore the context after the client's method."""
    if token is not None:
        try:
            _current.reset(token)
        except ValueError:
            pass  # the coroutine was closed in another context


def _install(http: Any) -> None:
    """Intercept the requests of an httpx client, for its lifetime."""
    own, kind = vars(http), type(http)
    if "send" in own:
        return
    # A weak reference avoids a cycle, which would delay closing a dropped client.
    client = weakref.ref(http)

    def send(request: Any, **options: Any) -> Any:
        exchange, found = _current.get(), client()
        if exchange is None or found is None:
            return kind.send(found, request, **options)
        if not options.get("stream"):
            return _whole(exchange, found, kind, request, options)
        return _stream(exchange, found, kind, request, options)

    async def send_async(request: Any, **options: Any) -> Any:
        exchange, found = _current.get(), client()
        if exchange is None or found is None:
            return await kind.send(found, request, **options)
        if not options.get("stream"):
            return await _whole_async(exchange, found, kind, request, options)
        return await _stream_async(exchange, found, kind, request, options)

    own["send"] = send_async if hasattr(kind, "__aenter__") else send


def _boundary(exchange: Exchange, request: Any, call: Any, form: str) -> Any:
    body = bytes(request.content)
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        asked = body
    arguments = {"method": request.method, "path": request.url.path, "body": asked}
    return boundary(exchange.name, "llm", arguments, call, form=form, around=exchange.around)


def _whole(exchange: Exchange, http: Any, kind: Any, request: Any, options: Any) -> Any:
    answered: list[Any] = []

    def call(**changes: Any) -> dict[str, Any]:
        answered.append(kind.send(http, _changed(request, changes), **options))
        return {**_head(answered[0]), "body": _shown(answered[0].content)}

    answer = _boundary(exchange, request, call, "sync")
    return answered[0] if answered else _response(request, answer, content=_bytes(answer["body"]))


async def _whole_async(exchange: Exchange, http: Any, kind: Any, request: Any, options: Any) -> Any:
    answered: list[Any] = []

    async def call(**changes: Any) -> dict[str, Any]:
        answered.append(await kind.send(http, _changed(request, changes), **options))
        return {**_head(answered[0]), "body": _shown(answered[0].content)}

    answer = await _boundary(exchange, request, call, "async")
    return answered[0] if answered else _response(request, answer, content=_bytes(answer["body"]))


def _stream(exchange: Exchange, http: Any, kind: Any, request: Any, options: Any) -> Any:
    def call(**changes: Any) -> Generator[Any, None, None]:
        response = kind.send(http, _changed(request, changes), **options)
        try:
            yield _head(response)
            for data in response.iter_bytes():
                yield _piece(data)
        finally:
            response.close()

    parts = _boundary(exchange, request, call, "generator")
    head = next(parts)
    module = _module_of(request)

    class SyncPieces(module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            return (_bytes(piece) for piece in parts)

        def close(self) -> None:
            parts.close()

    return _response(request, head, stream=SyncPieces())


async def _stream_async(
    exchange: Exchange, http: Any, kind: Any, request: Any, options: Any
) -> Any:
    async def call(**changes: Any) -> AsyncGenerator[Any, None]:
        response = await kind.send(http, _changed(request, changes), **options)
        try:
            yield _head(response)
            async for data in response.aiter_bytes():
                yield _piece(data)
        finally:
            await response.aclose()

    parts = _boundary(exchange, request, call, "async_generator")
    head = await anext(parts)
    module = _module_of(request)

    class AsyncPieces(module.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in parts:
                yield _bytes(piece)

        async def aclose(self) -> None:
            await parts.aclose()

    return _response(request, head, stream=AsyncPieces())


def _changed(request: Any, changes: dict[str, Any]) -> Any:
    """Return the request with a fork's changes; Google's model is in the path."""
    if not changes:
        return request
    body, url, fields = _json_object(request), request.url, dict(changes)
    if "model" in fields and "model" not in body and _MODEL_IN_PATH.search(url.path):
        model = quote(str(fields.pop("model")), safe="")
        url = url.copy_with(
            path=_MODEL_IN_PATH.sub(lambda _: f"/models/{model}", url.path, count=1)
        )
    headers = [
        (name, value)
        for name, value in request.headers.multi_items()
        if name.lower() not in ("content-length", "transfer-encoding")
    ]
    return _module_of(request).Request(
        request.method,
        url,
        headers=headers,
        content=msgspec.json.encode({**body, **fields}),
        extensions=request.extensions,
    )


def _json_object(request: Any) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(bytes(request.content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    if isinstance(body, dict):
        return body
    raise NotAllowedError(
        f"the body of {request.url.path} is no JSON object: a fork cannot change what is in it"
    )


def _head(response: Any) -> dict[str, Any]:
    pairs = response.headers.multi_items()
    kept = [[name, value] for name, value in pairs if name.lower() not in _LEFT_OUT]
    return {"status": response.status_code, "headers": kept}


def _response(request: Any, head: dict[str, Any], **body: Any) -> Any:
    headers = [(name, value) for name, value in head["headers"]]
    return _module_of(request).Response(head["status"], headers=headers, request=request, **body)


def _module_of(request: Any) -> Any:
    """Return the package of a request: httpx or a compatible one."""
    return sys.modules[type(request).__module__.partition(".")[0]]


def _shown(body: bytes) -> Any:
    """Return a body for the tape: decoded if it is JSON, so that redaction applies."""
    try:
        return {"json": msgspec.json.decode(body)}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _piece(body)


def _piece(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:  # cut within a character, or not text
        return data


def _bytes(kept: Any) -> bytes:
    if isinstance(kept, dict):
        return msgspec.json.encode(kept["json"])
    return kept.encode() if isinstance(kept, str) else bytes(kept)
