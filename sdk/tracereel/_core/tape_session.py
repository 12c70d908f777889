"""Calls under a tape session: executed and recorded, or served from the tape.

The session (recording, replaying or forking) returns a `Live` call, which runs and reports its
outcome, or a `Served` call, which does not run. Tapes are implemented in `tracereel.tape`.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from tracereel._core import replay_guard

if TYPE_CHECKING:
    from tracereel._core.context import Execution

Function = Callable[..., Any]


OUTSIDE: Final = "outside_of_tape"
"""Note on an execution that tapes ignore: calls directly inside of it begin a tape of their own."""


class Live:
    """Call that runs. The base class ignores its outcome."""

    __slots__ = ()
    changes: bool = True
    """Whether a fork may change the arguments."""
    holds: bool = False
    """Whether the result is held back until its recorded position."""

    def changed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the arguments to run with."""
        return args, kwargs

    def returned(self, result: Any) -> None:
        """Record the result."""

    def raised(self, error: BaseException) -> None:
        """Record an exception, a cancellation or a closed generator."""

    def gave(self, item: Any) -> None:
        """Record one item of a stream."""

    def gives_coroutine(self) -> None:
        """Note that a plain function returned a coroutine, so that the call ends with it."""

    def hold(self) -> None:
        """Block the thread until the result may be returned."""

    async def hold_async(self) -> None:
        """Suspend the task until the result may be returned."""


class Served(Protocol):
    """Call whose result comes from the tape."""

    awaited: bool
    """Whether the recorded function was a plain one that returned a coroutine."""

    def give(self) -> Any:
        """Return the recorded result or raise the recorded exception."""

    async def give_async(self) -> Any:
        """Async form of `give`."""

    def stream(self) -> Iterator[Any]:
        """Yield the items of the recorded stream."""

    def stream_async(self) -> AsyncIterator[Any]:
        """Async form of `stream`."""

    def stopped(self, error: BaseException) -> None:
        """Note that the program closed the stream."""


RUNS: Final = Live()
"""Call that runs without being recorded."""


class TapeSession:
    """Handles the calls of a recorder; the base class runs all of them unrecorded."""

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
        """Begin a call; `around` is the execution that makes it."""
        del execution, around, kind, name, function, arguments, form, effect
        return RUNS

    def begins_block(self, execution: "Execution", effect: str) -> None:
        """Begin a `with` block; raise if it may not run."""

    def ended_block(self, execution: "Execution", error: BaseException | None) -> None:
        """End a `with` block."""

    def decide(self, execution: "Execution | None", decision_type: str) -> tuple[bool, Any]:
        """Return whether a decision is overridden, and its value."""
        del execution, decision_type
        return False, None

    def decided(
        self, execution: "Execution | None", decision_type: str, result: Any, candidates: Any
    ) -> None:
        """Record the result of a decision function and its candidates."""

    def used(
        self,
        execution: "Execution",
        way: Literal["called", "added", "set"],
        fields: Mapping[str, Any],
    ) -> None:
        """Note tokens and cost of a model call, or those that the program added or set."""


def _begin(session: TapeSession, scope: Any, function: Function, form: str) -> Any:
    execution = scope.execution
    call = session.begin(
        execution,
        around=execution.parent,
        kind=execution.kind,
        name=execution.name,
        function=function,
        arguments=scope.arguments,
        form=form,
        effect=scope.spec.effect or "",
    )
    if replay_guard.engaged:
        effect = scope.spec.effect or ""
        check(call, execution.kind, execution.name, effect, execution.parent)
    return call


def check(call: Any, kind: str, name: str, effect: str, around: "Execution | None") -> None:
    """Refuse a call that runs, if a guard of this process does not allow it."""
    if isinstance(call, Live):
        try:
            replay_guard.check_tool(kind, name, effect, around)
        except BaseException as error:
            call.raised(error)
            raise


def sync(
    session: TapeSession,
    scope: Any,
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call a plain function under the session."""
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
        if call.holds and isinstance(error, Exception):  # not a cancellation
            await call.hold_async()
        call.raised(error)
        raise
    call.returned(result)
    return result


async def coroutine(
    session: TapeSession,
    scope: Any,
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call a coroutine function under the session."""
    return await run_async(_begin(session, scope, function, "async"), function, args, kwargs)


async def run_async(
    call: Any, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run or serve a call of a coroutine function."""
    if not isinstance(call, Live):
        return await call.give_async()
    args, kwargs = call.changed(args, kwargs)
    return await _awaited(call, function(*args, **kwargs))


def generator(
    session: TapeSession,
    scope: Any,
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Generator[Any, Any, Any]:
    """Call a generator function under the session; the call begins at the first step."""
    call = _begin(session, scope, function, "generator")
    return (yield from stream(call, function, args, kwargs))


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


def async_generator(
    session: TapeSession,
    scope: Any,
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> AsyncGenerator[Any, Any]:
    """Call an async generator function under the session; the call begins at the first step."""
    return _stream_async(
        lambda: _begin(session, scope, function, "async_generator"), function, args, kwargs
    )


def stream_async(
    call: Any, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AsyncGenerator[Any, Any]:
    """Run or serve an async generator."""
    return _stream_async(lambda: call, function, args, kwargs)


async def _stream_async(
    begin: Callable[[], Any], function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AsyncGenerator[Any, Any]:
    call = begin()
    if not isinstance(call, Live):
        try:
            async for item in call.stream_async():
                yield item
        except GeneratorExit as closed:
            call.stopped(closed)
            raise
        await call.give_async()
        return
    args, kwargs = call.changed(args, kwargs)
    inner = function(*args, **kwargs)
    value: Any = None
    error: BaseException | None = None
    try:
        while True:
            try:
                item = await (inner.asend(value) if error is None else inner.athrow(error))
                if call.holds:
                    await call.hold_async()
            except StopAsyncIteration:
                if call.holds:
                    await call.hold_async()
                call.returned(None)
                return
            finally:
                error = None
            call.gave(item)
            try:
                value = yield item
            except BaseException as thrown:  # noqa: BLE001 - goes to the inner generator
                value, error = None, thrown
    except BaseException as raised:
        call.raised(raised)
        raise
    finally:
        await inner.aclose()
