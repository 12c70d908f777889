"""Wrappers that record functions, coroutines, generators and `with` blocks.

A wrapped call returns, yields, raises and is cancelled exactly like the original. The span of a
generator is current only while its code runs: nothing stays attached across a `yield`.
"""

import functools
import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from types import CoroutineType
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from tracereel._core import context, replay_guard, tape_session
from tracereel._core import recorder as _recorder
from tracereel._core.context import Execution
from tracereel._core.executions.arguments import NO_ARGUMENTS, Arguments, Defaults
from tracereel._core.executions.output import ASYNC_GENERATOR, GENERATOR
from tracereel._core.executions.scope import ExecutionScope, Spec
from tracereel._core.time_limit import limited
from tracereel._runtime import guard

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Spec)
Function = Callable[..., Any]
TRACED: Final = "__tracereel_traced__"
"""Marks wrapped functions, which a tape may call; copied by `functools.wraps`."""
BOUNDARY: Final = "__tracereel_boundary__"
"""Kind and name of a wrapped function, by which a tape may know it."""
Begin = Callable[[tuple[Any, ...], dict[str, Any], str | None], ExecutionScope | None]
"""Opens the scope of a call: attached, or with an output stream for generators."""


class Traced(Generic[S]):
    """Decorator and context manager that records calls or `with` blocks."""

    __slots__ = ("_entered", "_spec", "_tag")

    def __init__(self, spec: S, *, tag: str | None = None) -> None:
        self._spec = spec
        self._tag = tag
        self._entered: list[ExecutionScope] = []

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function, method, coroutine function, generator or async generator function."""
        given: object = function
        if isinstance(given, type) or not (callable(given) or isinstance(given, classmethod)):
            raise TypeError(
                f"only functions and methods can be traced, a class or value cannot: {function!r}"
            )
        if isinstance(function, (staticmethod, classmethod)):
            inner = self._wrap(function.__func__)
            return cast("Callable[P, R]", type(function)(inner))
        return cast("Callable[P, R]", self._wrap(function))

    def _wrap(self, function: Function) -> Function:
        wrapped = wrap(function, self._spec)
        wrapped.__dict__[TRACED] = True
        wrapped.__dict__[BOUNDARY] = self._spec.scope.kind, self._spec.name
        _register(wrapped.__dict__[BOUNDARY], function)
        if self._tag is not None:
            wrapped.__dict__["__tracereel_agent__"] = self._tag
        if self._spec.effect is not None:
            wrapped.__dict__["__tracereel_effect__"] = self._spec.effect
        return wrapped

    def __enter__(self) -> Execution:
        recorder = _recorder.active()
        if replay_guard.engaged:
            kind, effect = self._spec.scope.kind, self._spec.effect or ""
            replay_guard.check_tool(kind, self._spec.name, effect, context.current_execution())
        if recorder is None:
            return context.here()
        try:
            inputs = self._spec.inputs
            arguments = NO_ARGUMENTS if inputs is None else Arguments((), 0, (), inputs)
            scope = self._spec.open(recorder, arguments)
            if (tape := recorder.tape) is not None:
                tape.begins_block(scope.execution, self._spec.effect or "")
            scope.attach()
        except Exception as error:  # noqa: BLE001
            guard.report("begin", error)
            return context.here()
        self._entered.append(scope)
        return scope.execution

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        scope = self._leave()
        if scope is None:
            return
        if (tape := scope.recorder.tape) is not None:
            tape.ended_block(scope.execution, error)
        if error is not None:
            scope.fail(error)
        else:
            scope.complete(None)

    async def __aenter__(self) -> Execution:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        self.__exit__(kind, error, tb)

    def _leave(self) -> ExecutionScope | None:
        """Remove and return the scope of this block; several tasks may have entered the same object."""
        entered, current = self._entered, context.current.get()
        for index in range(len(entered) - 1, -1, -1):
            if entered[index].execution is current:
                return entered.pop(index)
        return entered.pop() if entered else None


_paths: Final[dict[tuple[str, str], set[str]]] = {}
"""Paths of the functions that were decorated in this process, by kind and name."""
_MAX_PATHS: Final = 10_000


def _register(boundary: tuple[str, str], function: Function) -> None:
    if len(_paths) < _MAX_PATHS and len(known := _paths.setdefault(boundary, set())) < _MAX_PATHS:
        known.add(path_of(function))


def path_of(function: Any) -> str:
    """Return `module:qualified.name` of a function."""
    inner = getattr(function, "__func__", function)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{getattr(inner, '__module__', None) or '?'}:{name}"


def paths_of(kind: str, name: str) -> frozenset[str]:
    """Return the paths of the functions that were decorated as this boundary."""
    return frozenset(_paths.get((kind, name), ()))


def wrap(function: Function, spec: Spec) -> Function:
    """Return a function of the same kind whose calls are recorded."""
    spec = spec.of(function)
    begin = _beginner(function, spec)
    risky = replay_guard.changes_something(spec.scope.kind, spec.effect or "")
    if _is(inspect.isgeneratorfunction, function):
        return _wrap_generator(function, begin, spec)
    if _is(inspect.isasyncgenfunction, function):
        return _wrap_async_generator(function, begin, spec)

    if _is(inspect.iscoroutinefunction, function):
        if spec.timeout is not None:
            function = limited(function, spec.timeout)

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            scope = begin(args, kwargs, None)
            if scope is None:
                if risky and replay_guard.engaged:
                    _refuse(spec, None)
                return await function(*args, **kwargs)
            tape = scope.recorder.tape
            try:
                try:
                    if tape is None:
                        if risky and replay_guard.engaged:
                            _refuse(spec, scope)
                        result = await function(*args, **kwargs)
                    else:
                        result = await tape_session.coroutine(tape, scope, function, args, kwargs)
                except BaseException as error:
                    scope.fail(error)
                    raise
                scope.complete(result)
                return result
            finally:
                if scope.attachment is not None:
                    scope.detach()

        return call_async

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        scope = begin(args, kwargs, None)
        if scope is None:
            if risky and replay_guard.engaged:
                _refuse(spec, None)
            return function(*args, **kwargs)
        tape = scope.recorder.tape
        try:
            try:
                if tape is None:
                    if risky and replay_guard.engaged:
                        _refuse(spec, scope)
                    result = function(*args, **kwargs)
                else:
                    result = tape_session.sync(tape, scope, function, args, kwargs)
            except BaseException as error:
                scope.fail(error)
                raise
            if type(result) is CoroutineType:
                # A plain function that returns a coroutine: the call ends with the coroutine.
                scope.detach()
                return _finish_later(result, scope)
            scope.complete(result)
            return result
        finally:
            # A signal handler that raises during the end must not leave this call current.
            if scope.attachment is not None:
                scope.detach()

    return call


async def _finish_later(coroutine: "CoroutineType[Any, Any, Any]", scope: ExecutionScope) -> Any:
    with guard.Guard("begin"):
        scope.attach()
    try:
        result = await coroutine
    except BaseException as error:
        scope.fail(error)
        raise
    scope.complete(result)
    return result


def _refuse(spec: Spec, scope: ExecutionScope | None) -> None:
    """Refuse the call if a guard of this process does not allow it."""
    around = scope.execution.parent if scope is not None else context.current_execution()
    replay_guard.check_tool(spec.scope.kind, spec.name, spec.effect or "", around)


def _beginner(function: Function, spec: Spec) -> Begin:
    names, skip, defaults = _parameters(function)

    def begin(
        args: tuple[Any, ...], kwargs: dict[str, Any], stream: str | None
    ) -> ExecutionScope | None:
        recorder = _recorder.active()
        if recorder is None:
            return None
        try:
            scope = spec.open(recorder, Arguments(names, skip, args, kwargs, defaults))
            if stream is None:
                scope.attach()
            else:
                scope.stream = scope.listen(stream)
        except Exception as error:  # noqa: BLE001
            guard.report("begin", error)
            return None
        return scope

    return begin


def _wrap_generator(function: Function, begin: Begin, spec: Spec) -> Function:
    @functools.wraps(function)
    def call_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = function(*args, **kwargs)
        scope = begin(args, kwargs, GENERATOR)
        if scope is not None and (tape := scope.recorder.tape) is not None:
            inner = tape_session.generator(tape, scope, function, args, kwargs)
        elif replay_guard.engaged:
            _refuse(spec, scope)
        value: Any = None
        error: BaseException | None = None
        closing = False
        while True:
            _enter(scope)
            try:
                # Thrown outside of the `except` block, so that it does not become the `__context__` of
                # later exceptions.
                item = inner.send(value) if error is None else inner.throw(error)
            except StopIteration as stop:
                _ended(scope, stop.value, closing=closing)
                return stop.value
            except BaseException as raised:
                if scope is not None:
                    scope.fail(raised)
                raise
            finally:
                error = None
            _given(scope, item)
            try:
                value = yield item
            except BaseException as thrown:  # noqa: BLE001 - goes to the inner generator
                value, error = None, thrown
                closing = isinstance(thrown, GeneratorExit)

    return call_generator


def _wrap_async_generator(function: Function, begin: Begin, spec: Spec) -> Function:
    @functools.wraps(function)
    async def call_async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        scope = begin(args, kwargs, ASYNC_GENERATOR)
        if scope is not None and (tape := scope.recorder.tape) is not None:
            inner = tape_session.async_generator(tape, scope, function, args, kwargs)
        elif replay_guard.engaged:
            _refuse(spec, scope)
        step = first_step(inner)
        error: BaseException | None = None
        closing = False
        while True:
            _enter(scope)
            try:
                item = await step
            except StopAsyncIteration:
                _ended(scope, None, closing=closing)
                return
            except BaseException as raised:
                if scope is not None:
                    scope.fail(raised)
                raise
            finally:
                del step
            _given(scope, item)
            value: Any = None
            try:
                value = yield item
            except BaseException as thrown:  # noqa: BLE001 - goes to the inner generator
                error = thrown
                closing = isinstance(thrown, GeneratorExit)
            step = inner.asend(value) if error is None else inner.athrow(error)
            error = None

    return call_async_generator


def first_step(inner: AsyncGenerator[Any, Any]) -> Any:
    """Start an async generator without registering it at the event loop.

    The loop would close it independently of its wrapper; the wrapper is registered and closes it.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return inner.asend(None)
    finally:
        sys.set_asyncgen_hooks(*hooks)


def _enter(scope: ExecutionScope | None) -> None:
    if scope is not None:
        try:
            scope.attach()
        except Exception as error:  # noqa: BLE001 - cheaper than a Guard
            guard.report("attach", error)


def _given(scope: ExecutionScope | None, item: Any) -> None:
    """Detach the scope after a `yield` and count the item."""
    if scope is not None:
        try:
            scope.detach()
            if scope.stream is not None:
                scope.stream.add(item)
        except Exception as error:  # noqa: BLE001 - cheaper than a Guard
            guard.report("yield", error)


def _ended(scope: ExecutionScope | None, result: Any, *, closing: bool) -> None:
    if scope is not None:
        if closing:
            scope.cancel()
        else:
            scope.complete(result)


def _is(test: Callable[[Any], bool], function: Function) -> bool:
    return test(function) or test(
        getattr(function, "__call__", None)  # noqa: B004 - callable objects
    )


def _parameters(function: Function) -> tuple[tuple[str, ...], int, Defaults]:
    """Return positional names, the number of leading ones to skip (`self`, `cls`), and defaults."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # builtins without a signature
        return (), 0, ()
    names = tuple(
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    )
    skip = 1 if names[:1] in (("self",), ("cls",)) else 0
    defaults = tuple(
        (names.index(each.name) if each.name in names else sys.maxsize, each.name, each.default)
        for each in list(parameters)[skip:]
        if each.default is not inspect.Parameter.empty
    )
    return names, skip, defaults
