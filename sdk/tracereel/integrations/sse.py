r"""Integration for agents that stream Server-Sent Events (`tool_status`, `token`, `done`, `error`).

    from tracereel.integrations import sse

    with httpx.stream("POST", url, json={"message": question, "threadId": thread}) as response:
        for line in sse.wrap(response, "ss-expert", thread_id=thread).iter_lines():
            ...

    @sse.traced_sse("ss-expert", round_limit=6)
    async def ask(message: str, thread_id: str | None = None):
        yield "event: token\ndata: {…}\n\n"

A wrapped stream yields the same items. Frames are read as they pass and are not delayed.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Mapping
from typing import Any, Final, TypedDict, TypeVar, Unpack, cast

from tracereel._core import context
from tracereel._core.executions.arguments import given
from tracereel._core.wrapping import Traced
from tracereel._core.wrapping import wrap as wrap_function
from tracereel._redact import values
from tracereel.integrations._sse_frames import Frame as Frame
from tracereel.integrations._sse_frames import FrameReader as FrameReader
from tracereel.integrations._sse_run import KINDS, Rounds, SseSettings
from tracereel.integrations._sse_run import SseAgentError as SseAgentError
from tracereel.integrations._sse_scope import SseSpec, StreamSpec, spec_of_block

__all__ = ["Frame", "FrameReader", "SseAgentError", "traced_sse", "wrap"]

UNNAMED: Final = "sse_agent"
_READERS: Final = ("iter_bytes", "iter_content")
_ASYNC_READERS: Final = ("aiter_bytes",)

StreamT = TypeVar("StreamT")


class SseOptions(TypedDict, total=False):
    """Options for reading the frames of an agent."""

    version: str | None
    llm_provider: str | None
    llm_model: str | None
    round_limit: int | None
    """Maximum number of tool rounds of the agent."""
    rounds: Rounds
    """Grouping of tool calls into rounds.

    `calls` (default): each call is a round, unless its frame has a `round` field or another tool
    is still running. `streams`: the calls of one stream are one round.
    """
    names: Mapping[str, str]
    """Frame name → `tool_status`, `token`, `done` or `error`."""
    tools: bool
    """Whether to record tools; use `False` if they are traced themselves, to count only rounds."""
    thread_id: str | None
    """Thread to continue; default: a new one, whose id comes from a frame."""
    trace_id: str | None
    request_id: str | None
    user_id: str | None
    inputs: Mapping[str, Any] | None
    """Inputs of the request; arguments of a decorated function are recorded automatically."""


def traced_sse(name: str, **options: Unpack[SseOptions]) -> Traced[SseSpec]:
    """Record a generator of frames, or a block with wrapped streams, as an SSE agent.

    An argument `thread_id` or `threadId`, of the function or in its `body`, is the session id. In
    a `with` block every stream passed to `wrap` without a name belongs to the same execution.

    Raises:
        TypeError: the name is missing, or an option is unknown.
        ValueError: an option has an invalid value.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f'traced_sse takes a name, as in @traced_sse("ss-expert"); got {name!r}')
    return Traced(_spec(name, options, "traced_sse"), tag=name)


def wrap(stream: StreamT, name: str | None = None, **options: Unpack[SseOptions]) -> StreamT:
    """Record a stream of frames while it is read.

    Args:
        stream: response of httpx or requests, which is returned itself; or a sync or async
            iterable of bytes, text, lines or frames, for which a generator is returned.
        name: name of the agent; default: the stream belongs to the enclosing `traced_sse` block.

    Raises:
        TypeError: the stream has another type.
    """
    spec: SseSpec | StreamSpec | None = None
    if name is None:
        execution = context.current_execution()
        if execution is not None:
            spec = cast("StreamSpec | None", spec_of_block(execution.agent.notes))
    if spec is None:
        spec = _spec(name or UNNAMED, {"inputs": {}, **options}, "wrap")
    if any(callable(getattr(stream, reader, None)) for reader in (*_READERS, *_ASYNC_READERS)):
        _listen_to(stream, spec)
        return stream
    if isinstance(stream, AsyncIterable):
        return cast("StreamT", wrap_function(_passing_async(lambda: stream), spec)())
    if isinstance(stream, Iterable):
        return cast("StreamT", wrap_function(_passing(lambda: stream), spec)())
    raise TypeError(
        f"wrap takes a response of httpx or requests, an iterable or an async iterable;"
        f" got {type(stream).__name__}"
    )


def _listen_to(response: Any, spec: SseSpec | StreamSpec) -> None:
    """Observe the method that decodes the body; all other ways of reading use it."""
    spec.lines = False
    status = getattr(response, "status_code", None)
    if isinstance(spec, SseSpec) and isinstance(status, int):
        spec.status = status
    read: list[bool] = []

    def once(bare: Callable[..., Any], recorded: Callable[..., Any]) -> Callable[..., Any]:
        def reader(*args: Any, **kwargs: Any) -> Any:
            # A buffered body may be read again, but is recorded once.
            if read:
                return bare(*args, **kwargs)
            read.append(True)
            return recorded(*args, **kwargs)

        return reader

    for names, passing in ((_READERS, _passing), (_ASYNC_READERS, _passing_async)):
        for name in names:
            bare = getattr(response, name, None)
            if callable(bare):
                setattr(response, name, once(bare, wrap_function(passing(bare), spec)))


def _passing(source: Callable[..., Any]) -> Callable[..., Generator[Any, Any, Any]]:
    def passing(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from source(*args, **kwargs))

    return passing


def _passing_async(source: Callable[..., Any]) -> Callable[..., AsyncGenerator[Any, None]]:
    async def passing(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        stream = source(*args, **kwargs)
        try:
            async for item in stream:
                yield item
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    return passing


def _spec(name: str, options: SseOptions, function: str) -> SseSpec:
    if unknown := sorted(set(options) - SseOptions.__optional_keys__):
        known = ", ".join(sorted(SseOptions.__optional_keys__))
        raise TypeError(f"{function} has no option {', '.join(unknown)}; it takes {known}")
    names = dict(options.get("names") or {})
    if wrong := sorted(set(names.values()) - set(KINDS)):
        raise ValueError(f"frames are read as {', '.join(KINDS)}; not as {', '.join(wrong)}")
    rounds = options.get("rounds", "calls")
    if rounds not in ("calls", "streams"):
        raise ValueError(f"rounds are counted by calls or streams; not by {rounds!r}")
    ids: dict[str, object] = {
        "trace_id": options.get("trace_id"),
        "request_id": options.get("request_id"),
        "user_id": options.get("user_id"),
        "session_id": options.get("thread_id"),
    }
    settings = SseSettings(
        round_limit=values.count(options.get("round_limit")),
        rounds=rounds,
        names=names,
        records_tools=options.get("tools", True),
    )
    return SseSpec(
        values.text(name, values.SHORT_LIMIT),
        settings,
        version=options.get("version"),
        llm_provider=options.get("llm_provider"),
        llm_model=options.get("llm_model"),
        ids=given(ids),
        inputs=options.get("inputs"),
    )
