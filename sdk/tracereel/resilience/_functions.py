"""What is known of a function before it is called: its name, its agent, how it is called."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar, cast

from tracereel import _failures, _guard, _values

P = ParamSpec("P")
R = TypeVar("R")
Function = Callable[..., Any]
Classes = tuple[type[BaseException], ...]

AGENT_ATTRIBUTE: Final = "__tracereel_agent__"
"""Set by `traced_agent` on what it wraps; `functools.wraps` carries it further out."""


def agent_of(function: object) -> str | None:
    """The name of the agent whose executions the calls of a function are."""
    name = getattr(function, AGENT_ATTRIBUTE, None)
    return name if isinstance(name, str) else None


def name_of(function: object) -> str:
    """What to call a function: its agent's name, its own, or its class's."""
    name = agent_of(function) or getattr(function, "__name__", None)
    if not isinstance(name, str) or not name:
        inner = getattr(function, "func", None)  # functools.partial
        return name_of(inner) if inner is not None else _values.type_name(function)
    return _values.text(name, _values.SHORT_LIMIT)


@dataclass(frozen=True, slots=True)
class Subject:
    """The decorated function as events speak of it; found out once, when decorating."""

    tag: str | None
    """The agent of which each call of the function is an execution, with a span of its own."""
    given: str | None
    """The name the user wants to see."""
    name: str

    @classmethod
    def of(cls, function: Function, agent: str | None) -> "Subject":
        """What is known of a function, and the `agent` given with it."""
        return cls(agent_of(function), agent, agent or name_of(function))


def is_async(function: Function) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - objects whose call is a coroutine
    )


def refuse_generators(function: Function, decorator: str) -> None:
    """Raise where a call only makes a generator: what it does later could not be done again."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{decorator} cannot take a generator function: what it has already yielded cannot be"
            f" taken back; decorate the function that consumes it ({function!r})"
        )


def decorating(wrap: Callable[[Function], Function], function: Callable[P, R]) -> Callable[P, R]:
    """Apply a wrapper to a function, or to what a static or class method holds."""
    if isinstance(function, (staticmethod, classmethod)):
        return cast("Callable[P, R]", type(function)(wrap(function.__func__)))
    if not callable(function):
        raise TypeError(f"a function is expected; got {function!r}")
    return cast("Callable[P, R]", wrap(function))


def classes_of(name: str, given: type[BaseException] | Classes) -> Classes:
    """Exception classes as a tuple, whether one was given or several."""
    classes = given if isinstance(given, tuple) else (given,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise TypeError(f"{name} takes an exception class or a tuple of them; got {each!r}")
    return classes


def number_of(name: str, value: object, *, above: bool = False) -> float:
    """A number from 0 on (`above`: above 0), checked when decorating so that no call has to."""
    number = _values.real(value)
    if number is None or number < 0 or (above and number == 0):
        raise ValueError(f"{name} is a number {'above' if above else 'from'} 0; got {value!r}")
    return number


def error_text(error: BaseException) -> str:
    """An exception as the contract writes it: `Type: message`."""
    failure = _failures.describe(error)
    if not failure.error_message:
        return failure.error_type
    return f"{failure.error_type}: {failure.error_message}"


def asked(what: str, question: Callable[..., Any], *values: object) -> Any:
    """The answer of a function the user gave us; null, with a warning, where it raises."""
    try:
        return question(*values)
    except Exception as error:  # noqa: BLE001 - theirs, but not the call they wanted made
        _guard.pass_on(error)
        _guard.warn_once(
            f"resilience:{what}", "tracereel: %s raised and is ignored: %s", what, error_text(error)
        )
        return None
