"""MCP's client: every tool it calls on a server is recorded as a call of a tool.

    from tracereel.integrations.mcp import wrap

    client = wrap(mcp.Client("https://tools.example/mcp"))

Sessions (`mcp.ClientSession`) and clients (`mcp.Client`) over stdio, HTTP and memory are recorded alike.
`unwrap(client)` ends it; `instrument()` and `uninstrument()` do it for all of them.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from tracereel import _context, _guard, _recorder
from tracereel._scopes.arguments import Arguments
from tracereel._scopes.base import Scope
from tracereel._scopes.calls import ToolSpec
from tracereel._wrapping import taped
from tracereel.integrations import _packages
from tracereel.integrations._runs import FailedToolError
from tracereel.providers.reading import as_data, get, plain_text

ClientT = TypeVar("ClientT")

TOOL_TYPE: Final = "mcp"
_METHOD: Final = "call_tool"
_MARK: Final = "_tracereel_recording"
_INSIDE: Final = "mcp_call"
"""A note on the execution of a call: a client calls by way of its session, which may be recorded too."""
_before: Final[list[tuple[type, Any]]] = []


def wrap(client: ClientT) -> ClientT:
    """Record the tools that one client or session calls; gives the same object back.

    Raises:
        TypeError: it is no client of MCP's.
    """
    if not callable(getattr(type(client), _METHOD, None)):
        raise TypeError(
            f"wrap takes a client, mcp.Client or mcp.ClientSession; got {_packages.kind_of(client)}"
        )
    _packages.warn_if_old("mcp")
    own = vars(client)
    if _MARK not in own:
        own[_MARK] = True
        own[_METHOD] = _recorded(getattr(client, _METHOD))
    return client


def unwrap(client: ClientT) -> ClientT:
    """Record the calls of a client no longer; gives the same object back."""
    own = vars(client)
    if own.pop(_MARK, None) is not None:
        own.pop(_METHOD, None)
    return client


def instrument() -> None:
    """Record the tools that every MCP session of this process calls, until `uninstrument`."""
    with _packages.needed("mcp"):
        from mcp import ClientSession

    _packages.warn_if_old("mcp")
    if _before:
        return
    original = vars(ClientSession)[_METHOD]
    _before.append((ClientSession, original))

    @functools.wraps(original)
    async def call_tool(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await _call(functools.partial(original, self), args, kwargs)

    setattr(ClientSession, _METHOD, call_tool)


def uninstrument() -> None:
    """Undo `instrument`."""
    while _before:
        kind, original = _before.pop()
        setattr(kind, _METHOD, original)


def _recorded(original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(original)
    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        return await _call(original, args, kwargs)

    return call_tool


async def _call(
    original: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    scope = _opened(args, kwargs)
    if scope is None:
        return await original(*args, **kwargs)
    tape = scope.recorder.tape
    try:
        if tape is None:
            result = await original(*args, **kwargs)
        else:
            result = await _taped(tape, scope, original, args, kwargs)
    except BaseException as error:
        scope.fail(error)
        raise
    with _guard.Guard("mcp"):
        _end(scope, result)
    return result


async def _taped(
    tape: Any,
    scope: Scope,
    original: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The call as a boundary of the tape: kept as data, so that no class has to be found again by it."""
    answered: list[Any] = []

    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        answered.append(await original(*args, **kwargs))
        return _shown(answered[0])

    told = await taped().coroutine(tape, scope, call_tool, args, kwargs)
    return answered[0] if answered else _result(told)


def _shown(result: Any) -> Any:
    dump = getattr(result, "model_dump", None)
    if not callable(dump):
        return result
    fields = dump(mode="json", by_alias=True, exclude_unset=True)
    return {"type": type(result).__name__, "fields": fields}


def _result(told: Any) -> Any:
    """What a tape serves as the client would have given it."""
    kind = (
        told.get("type") if isinstance(told, dict) and told.keys() == {"type", "fields"} else None
    )
    if kind is None:
        return told
    from mcp import types

    return getattr(types, kind).model_validate(told["fields"])


def _opened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Scope | None:
    """The scope of a call that begins; null where nothing is recorded, or somebody does it already."""
    recorder = _recorder.active()
    around = _context.current_execution()
    if recorder is None or (around is not None and _INSIDE in around.notes):
        return None
    try:
        name = str(args[0] if args else kwargs.get("name"))
        arguments = args[1] if len(args) > 1 else kwargs.get("arguments")
        spec = ToolSpec(name, tool_type=TOOL_TYPE, tool_call_id=None, ids={}, inputs=None)
        given = arguments if isinstance(arguments, dict) else {}
        scope = spec.open(recorder, Arguments((), 0, (), given))
        scope.execution.notes[_INSIDE] = True
        scope.attach()
    except Exception as error:  # noqa: BLE001
        _guard.report("mcp", error)
        return None
    return scope


def _end(scope: Scope, result: Any) -> None:
    content = as_data(get(result, "content"))
    if get(result, "is_error", "isError") is True:
        scope.fail(FailedToolError(plain_text(content) or "the tool failed"))
        return
    structured = as_data(get(result, "structured_content", "structuredContent"))
    flat = plain_text(content)
    told = structured if structured is not None else flat if flat is not None else content
    scope.complete(told)
