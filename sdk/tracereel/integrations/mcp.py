"""MCP integration: records tools that an MCP client calls as tool calls.

    from tracereel.integrations.mcp import wrap
    client = wrap(mcp.Client("https://tools.example/mcp"))

Sessions (`mcp.ClientSession`) and clients (`mcp.Client`) over stdio, HTTP and memory are
supported. `unwrap(client)` stops recording; `instrument()` and `uninstrument()` apply to all
sessions.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from tracereel._core import context, tape_session
from tracereel._core import recorder as _recorder
from tracereel._core.executions.arguments import Arguments
from tracereel._core.executions.calls import ToolSpec
from tracereel._core.executions.scope import ExecutionScope
from tracereel._runtime import guard
from tracereel.integrations import _packages
from tracereel.integrations._runs import FailedToolError
from tracereel.providers.reading import as_data, get, plain_text

ClientT = TypeVar("ClientT")

TOOL_TYPE: Final = "mcp"
_METHOD: Final = "call_tool"
_MARK: Final = "_tracereel_recording"
_INSIDE: Final = "mcp_call"
"""Note on the execution of a call, to ignore the nested call of the session."""
_before: Final[list[tuple[type, Any]]] = []


def wrap(client: ClientT) -> ClientT:
    """Record the tool calls of one client or session; return the same object.

    Raises:
        TypeError: it is not an MCP client.
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
    """Stop recording a client; return the same object."""
    own = vars(client)
    if own.pop(_MARK, None) is not None:
        own.pop(_METHOD, None)
    return client


def instrument() -> None:
    """Record the tool calls of all MCP sessions in this process until `uninstrument`."""
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
    with guard.Guard("mcp"):
        _end(scope, result)
    return result


async def _taped(
    tape: Any,
    scope: ExecutionScope,
    original: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Make the call as a tape boundary; results are kept as plain data."""
    answered: list[Any] = []

    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        answered.append(await original(*args, **kwargs))
        return _shown(answered[0])

    told = await tape_session.coroutine(tape, scope, call_tool, args, kwargs)
    return answered[0] if answered else _result(told)


def _shown(result: Any) -> Any:
    dump = getattr(result, "model_dump", None)
    if not callable(dump):
        return result
    fields = dump(mode="json", by_alias=True, exclude_unset=True)
    return {"type": type(result).__name__, "fields": fields}


def _result(told: Any) -> Any:
    """Return a served result as the client would return it."""
    kind = (
        told.get("type") if isinstance(told, dict) and told.keys() == {"type", "fields"} else None
    )
    if kind is None:
        return told
    from mcp import types

    return getattr(types, kind).model_validate(told["fields"])


def _opened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExecutionScope | None:
    """Open the scope of a call; `None` if it is not recorded here."""
    recorder = _recorder.active()
    around = context.current_execution()
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
        guard.report("mcp", error)
        return None
    return scope


def _end(scope: ExecutionScope, result: Any) -> None:
    content = as_data(get(result, "content"))
    if get(result, "is_error", "isError") is True:
        scope.fail(FailedToolError(plain_text(content) or "the tool failed"))
        return
    structured = as_data(get(result, "structured_content", "structuredContent"))
    flat = plain_text(content)
    told = structured if structured is not None else flat if flat is not None else content
    scope.complete(told)
