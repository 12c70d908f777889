"""Calls of every form with a tape beside them: recorded while they run, or given from the tape.

`_wrapping` calls in here when the recorder has a tape, and so does `boundary`, which is for whoever wraps
a client of his own. The session (recording, playing or forking) answers each call with a `Live` one,
which runs and is told how it went, or a `Served` one, which does not run.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from tracereel import _guard

if TYPE_CHECKING:
    from tracereel._context import Execution

Function = Callable[..., Any]


class Live:
    """A call that runs; told how it went. This one takes no notice."""

    __slots__ = ()
    changes: bool = True
    """Whether it may run with other arguments than it was called with."""
    holds: bool = False
    """Whether a result waits for its turn before the program sees it."""

    def changed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments it runs with."""
        return args, kwargs

    def returned(self, result: Any) -> None:
        """It has returned."""

    def raised(self, error: BaseException) -> None:
        """It has raised, or was cancelled or closed."""

    def gave(self, item: Any) -> None:
        """It has given a part of a stream."""

    def gives_coroutine(self) -> None:
        """A plain function has given a coroutine: the call ends when that does."""

    def hold(self) -> None:
        """Wait for the turn of a thread."""

    async def hold_async(self) -> None:
        """Wait for the turn of a task."""


class Served(Protocol):
    """A call that does not run: everything comes from the tape."""

    awaited: bool
    """Whether a plain function gave a coroutine."""

    def give(self) -> Any:
        """The result, or raises the exception."""

    async def give_async(self) -> Any:
        """The same, in a task."""

    def stream(self) -> Iterator[Any]:
        """The parts of the stream."""

    def stream_async(self) -> AsyncIterator[Any]:
        """The same, in a task."""

    def stopped(self, error: BaseException) -> None:
        """The program has closed the stream, or thrown something into it."""


class Session(Protocol):
    """What a recorder's tape is."""

    def begin(
        self,
        execution: "Execution | None",
        *,
        around: "Execution | None",
        kind: str,
        name: str,
        function: Function | None,
        arguments: Any,
        form: str,
        effect: str,
    ) -> Live | Served:
        """A call begins: `execution` is its own, `around` the one it is made in."""

    def begins_block(self, execution: "Execution", effect: str) -> None:
        """A `with` block is about to run; raises where it may not."""

    def ended_block(self, execution: "Execution", error: BaseException | None) -> None:
        """A `with` block has ended."""

    def decide(self, execution: "Execution | None", decision_type: str) -> tuple[bool, Any]:
        """Whether a decision is forced, and to what."""

    def decided(
        self, execution: "Execution | None", decision_type: str, result: Any, candidates: Any
    ) -> None:
        """A decision function has returned, one of the candidates if it named any."""


def _begin(session: Session, scope: Any, function: Function, form: str) -> Any:
    execution = scope.execution
    return session.begin(
        execution,
        around=execution.parent,
        kind=execution.kind,
        name=execution.name,
        function=function,
        arguments=scope.arguments,
        form=form,
        effect=getattr(scope.spec, "effect", None) or "",
    )


def sync(
    session: Session,
    scope: Any,
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A call of a plain function."""
    return run(_begin(session, scope, function, "sync"), function, args, kwargs)


def run(call: Any, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run or serve a call of a plain function."""
    if not isinstance(call, Live):
        return call.give_async() if call.awaited else call.give()
    if call.changes:
        args, kwargs = call.changed(args, kwargs)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        call.raised(error)
        raise
    if type(result) is CoroutineType:
        call.gives_coroutine()
        return _awaited(call, result)
    if call.holds:
        call.hold()
    call.returned(result)
    return result


async def _awaited(call: Live, coroutine: Any) -> Any:
    try:
        result = await coroutine
        if call.holds:
            await call.hold_async()
    except BaseException as error:
        if call.holds and not _is_cancel(error):
            await call.hold_async()
        call.raised(error)
        raise
    call.returned(result)
    return result


def _is_cancel(error: BaseException) -> bool:
    return not isinstance(error, Exception)


async def coroutine(
    session: Session,
    scope: Any,
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A call of a coroutine function."""
    return await run_async(_begin(session, scope, function, "async"), function, args, kwargs)


async def run_async(
    call: Any, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run or serve a call of a coroutine function."""
    if not isinstance(call, Live):
        return await call.give_async()
    args, kwargs = call.changed(args, kwargs)
    return await _awaited(call, function(*args, **kwargs))


def generator(session: Session, scope: Any, function: Function) -> Function:
    """A generator function for one call of another."""

    def taped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = _begin(session, scope, function, "generator")
        return (yield from stream(call, function, args, kwargs))

    return taped


def stream(
    call: Any, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Generator[Any, Any, Any]:
    """Run or serve a generator."""
    if not isinstance(call, Live):
        try:
            for item in call.stream():
                yield item
        except GeneratorExit as closed:
            call.stopped(closed)
            raise
        return call.give()
    args, kwargs = call.changed(args, kwargs)
    inner = function(*args, **kwargs)
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            item = inner.send(value) if error is None else inner.throw(error)
        except StopIteration as stop:
            call.returned(stop.value)
            return stop.value
        except BaseException as raised:
            call.raised(raised)
            raise
        finally:
            error = None
        call.gave(item)
        try:
            value = yield item
        except BaseException as thrown:  # noqa: BLE001 - goes to the inner generator
            value, error = None, thrown


def async_generator(session: Session, scope: Any, function: Function) -> Function:
    """An async generator function for one call of another."""

    async def taped(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call = _begin(session, scope, function, "async_generator")
        inner = stream_async(call, function, args, kwargs)
        value: Any = None
        try:
            while True:
                item = await inner.asend(value)
                value = yield item
        except StopAsyncIteration:
            return
        finally:
            await inner.aclose()

    return taped


async def stream_async(
    call: Any, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AsyncGenerator[Any, Any]:
    """Run or serve an async generator."""
    if not isinstance(call, Live):
        try:
            async for item in call.stream_async():
                yield item
        except GeneratorExit as error:
            call.stopped(error)
            raise
        await call.give_async()
        return
    args, kwargs = call.changed(args, kwargs)
    inner = function(*args, **kwargs)
    value: Any = None
    try:
        while True:
            try:
                item = await inner.asend(value)
                if call.holds:
                    await call.hold_async()
            except StopAsyncIteration:
                if call.holds:
                    await call.hold_async()
                call.returned(None)
                return
            call.gave(item)
            value = yield item
    except BaseException as error:
        call.raised(error)
        raise
    finally:
        await inner.aclose()


def boundary(
    name: str,
    kind: str,
    arguments: Mapping[str, Any],
    call: Callable[[], Any],
    *,
    form: str = "sync",
    effect: str = "read",
    around: "Execution | None" = None,
) -> Any:
    """Make a call to the outside that a tape records, and that a replay serves instead of making it.

    For wrappers of clients. Without a tape in force it is `call()` and nothing else.

    Args:
        name: what it is called on the tape, such as `openai.chat.completions.create`.
        kind: `llm`, `tool` or `retrieval`.
        arguments: by these, with the name, the call is recognised; leave out what is new in each run.
        call: makes it. What it gives, this gives: a result, a coroutine, a generator. If it takes
            keywords, a fork can have it made with other arguments.
        form: what `call` gives: `sync` a result (or a coroutine), `async` a coroutine, `generator` or
            `async_generator` an iterator of the parts of a stream.
        effect: `pure`, `read`, `write` or `irreversible`; see the side effects of tools.
        around: the execution that it is made in; the current one if not given.
    """
    from tracereel import _context, _recorder

    recorder = _recorder.active()
    session = recorder.tape if recorder is not None else None
    if session is None:
        return call()
    around = around if around is not None else _context.current_execution()
    begun = session.begin(
        None,
        around=around,
        kind=kind,
        name=name,
        function=None,
        arguments=arguments,
        form=form,
        effect=effect,
    )
    _check_changes(name, begun, call)
    if form == "async":
        return run_async(begun, call, (), {})
    if form == "generator":
        return stream(begun, call, (), {})
    if form == "async_generator":
        return stream_async(begun, call, (), {})
    return run(begun, call, (), {})


def _check_changes(name: str, begun: Any, call: Callable[..., Any]) -> None:
    """Refuse a fork that changes the arguments of a call which can be made in one way only."""
    if not isinstance(begun, Live) or not begun.changes or not (given := begun.changed((), {})[1]):
        return
    import inspect

    from tracereel.tape.divergence import NotAllowedError

    taken = inspect.signature(call).parameters
    if set(given) <= set(taken) or any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        return
    raise NotAllowedError(
        f"{name} can be called in one way only: a fork cannot change its"
        f" {', '.join(given)}. Change it in the program, or say what the call gives"
        f" (Override({name!r}, result=…), --result {name}=JSON)"
    )


def quietly(where: str) -> _guard.Guard:
    """Around our own work while recording: the program never sees an error of ours."""
    return _guard.Guard(where)
