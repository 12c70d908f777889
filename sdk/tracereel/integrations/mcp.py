"""MCP integration: records tools that an MCP client calls as tool calls.

    from tracereel.integrations.mcp import wrap
    client = wrap(mcp.Client("https://tools.example/mcp"))

Sessions (`mcp.ClientSession`) and clients (`mcp.Client`) over stdio, HTTP and memory are
supported. `unwrap(client)` stops recording; `instrument()` and `uninstrument()` apply to all
sessions.
"""

from typing import Any, Final, TypeVar

from tracereel._core import context, tape_session
from tracereel._core.executions.scope import ExecutionScope
from tracereel._runtime import guard
from tracereel.integrations import _client_hooks, _framework_boundary, _packages
from tracereel.integrations._client_hooks import Original
from tracereel.integrations._runs import FailedToolError, enter_scope, tool_spec
from tracereel.providers.reading import as_data, get, plain_text

ClientT = TypeVar("ClientT")

TOOL_TYPE: Final = "mcp"
_METHOD: Final = "call_tool"
_INSIDE: Final = "mcp_call"
"""Note on the execution of a call, to ignore the nested call of the session."""
_patches: Final = _client_hooks.ClassHooks()


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
    return _client_hooks.wrap(client, _HOOKS, True)


def unwrap(client: ClientT) -> ClientT:
    """Stop recording a client; return the same object."""
    return _client_hooks.unwrap(client, _HOOKS)


def instrument() -> None:
    """Record the tool calls of all MCP sessions in this process until `uninstrument`."""
    with _packages.needed("mcp"):
        from mcp import ClientSession

    _packages.warn_if_old("mcp")
    _patches.apply({ClientSession: _HOOKS}, True)


def uninstrument() -> None:
    """Undo `instrument`."""
    _patches.undo()


async def _call_tool(
    recording: bool | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    scope = _opened(args, kwargs) if recording else None
    if scope is None:
        return await original(client, *args, **kwargs)
    try:
        if (tape := scope.recorder.tape) is None:
            result = await original(client, *args, **kwargs)
        else:
            result = await _taped(tape, scope, original, client, args, kwargs)
    except BaseException as error:
        scope.fail(error)
        raise
    with guard.Guard("mcp"):
        _end(scope, result)
    return result


_HOOKS: Final = {_METHOD: _call_tool}


async def _taped(
    tape: Any,
    scope: ExecutionScope,
    original: Original,
    client: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Make the call as a tape boundary; results are kept as plain data."""
    scope.execution.notes[_framework_boundary.BEGUN] = True
    answered: list[Any] = []

    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        answered.append(await original(client, *args, **kwargs))
        return as_plain(answered[0])

    answer = await tape_session.coroutine(tape, scope, call_tool, args, kwargs)
    return answered[0] if answered else result_of(answer)


def as_plain(result: Any) -> Any:
    """Return a result as plain data."""
    dump = getattr(result, "model_dump", None)
    if not callable(dump):
        return result
    fields = dump(mode="json", by_alias=True, exclude_unset=True)
    return {"type": type(result).__name__, "fields": fields}


def result_of(answer: Any) -> Any:
    """Return plain data as the client would return it."""
    kind = (
        answer.get("type")
        if isinstance(answer, dict) and answer.keys() == {"type", "fields"}
        else None
    )
    if kind is None:
        return answer
    from mcp import types

    return getattr(types, kind).model_validate(answer["fields"])


def _opened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExecutionScope | None:
    """Open the scope of a call; `None` if it is not recorded here."""
    around = context.current_execution()
    if around is not None and _INSIDE in around.notes:
        return None
    name = str(args[0] if args else kwargs.get("name"))
    arguments = args[1] if len(args) > 1 else kwargs.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    scope = enter_scope(tool_spec(name, None, kind=TOOL_TYPE), given)
    if scope is not None:
        scope.execution.notes[_INSIDE] = True
    return scope


def _end(scope: ExecutionScope, result: Any) -> None:
    content = as_data(get(result, "content"))
    if get(result, "is_error", "isError") is True:
        scope.fail(FailedToolError(plain_text(content) or "the tool failed"))
        return
    structured = as_data(get(result, "structured_content", "structuredContent"))
    flat = plain_text(content)
    answer = structured if structured is not None else flat if flat is not None else content
    scope.complete(answer)
