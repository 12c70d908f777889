"""The HTTP exchange of a wrapped client as a boundary of the tape: recorded, or served without network.

The seam is where the client hands its request to httpx. What comes back from a tape is the provider's
answer as it was on the wire, so the client makes of it what it made of the original: typed objects,
streams, errors, its own retries. Only where a tape is recorded or played does anything here run.
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

_MODEL_IN_PATH: Final = re.compile(r"/models/[^/:]+")
_LEFT_OUT: Final = frozenset(
    {"connection", "content-encoding", "content-length", "date", "keep-alive", "server"}
    | {"set-cookie", "transfer-encoding"}
)
"""Headers that are about the connection, or about a body that is kept decoded."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a wrapped client is about to send."""

    name: str
    around: Any
    """The execution that the call is made in."""


_current: ContextVar[Exchange | None] = ContextVar("tracereel_exchange", default=None)


def begin(call: ModelCall, http: Any) -> Token[Exchange | None] | None:
    """A call begins whose requests go through this client of httpx; null without a tape."""
    if http is None or not call.is_taped:
        return None
    _install(http)
    return _current.set(Exchange(f"{call.provider} {call.dialect.operation}", call.around))


def end(token: Token[Exchange | None] | None) -> None:
    """The client's method is left."""
    if token is not None:
        try:
            _current.reset(token)
        except ValueError:
            pass  # a coroutine closed from another context than it ran in


def _install(http: Any) -> None:
    """Have the requests of a client pass by here, as long as it lives."""
    own, kind = vars(http), type(http)
    if "send" in own:
        return
    # By a weak reference: a client that refers to itself is closed late when it is dropped.
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
    from tracereel.tape import boundary

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

    told = _boundary(exchange, request, call, "sync")
    return answered[0] if answered else _response(request, told, content=_bytes(told["body"]))


async def _whole_async(exchange: Exchange, http: Any, kind: Any, request: Any, options: Any) -> Any:
    answered: list[Any] = []

    async def call(**changes: Any) -> dict[str, Any]:
        answered.append(await kind.send(http, _changed(request, changes), **options))
        return {**_head(answered[0]), "body": _shown(answered[0].content)}

    told = await _boundary(exchange, request, call, "async")
    return answered[0] if answered else _response(request, told, content=_bytes(told["body"]))


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

    class Pieces(module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            return (_bytes(piece) for piece in parts)

        def close(self) -> None:
            parts.close()

    return _response(request, head, stream=Pieces())


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

    class Pieces(module.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in parts:
                yield _bytes(piece)

        async def aclose(self) -> None:
            await parts.aclose()

    return _response(request, head, stream=Pieces())


def _changed(request: Any, changes: dict[str, Any]) -> Any:
    """The request of a fork that has other fields in its body; Google's model is in the path."""
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
    from tracereel.tape import NotAllowedError

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
    """The package that a request is of: httpx, or one that took its place."""
    return sys.modules[type(request).__module__.partition(".")[0]]


def _shown(body: bytes) -> Any:
    """A body as the tape keeps it: data where it is JSON, so that people and rules can read it."""
    try:
        return {"json": msgspec.json.decode(body)}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _piece(body)


def _piece(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:  # cut within a character, or no text at all
        return data


def _bytes(kept: Any) -> bytes:
    if isinstance(kept, dict):
        return msgspec.json.encode(kept["json"])
    return kept.encode() if isinstance(kept, str) else bytes(kept)
