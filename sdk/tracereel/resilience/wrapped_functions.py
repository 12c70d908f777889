"""Properties of decorated functions: name, agent, sync or async."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar, cast

from tracereel._core import error_details
from tracereel._redact import values as _values
from tracereel._runtime import guard

P = ParamSpec("P")
R = TypeVar("R")
Function = Callable[..., Any]
Classes = tuple[type[BaseException], ...]

AGENT_ATTRIBUTE: Final = "__tracereel_agent__"
"""Attribute set by `traced_agent` on its wrapper; `functools.wraps` copies it to outer ones."""


def agent_of(function: object) -> str | None:
    """Return the name of a function's agent, or None."""
    name = getattr(function, AGENT_ATTRIBUTE, None)
    return name if isinstance(name, str) else None


def name_of(function: object) -> str:
    """Return a function's agent name, its own name, or its class name."""
    name = agent_of(function) or getattr(function, "__name__", None)
    if not isinstance(name, str) or not name:
        inner = getattr(function, "func", None)  # functools.partial
        return name_of(inner) if inner is not None else _values.type_name(function)
    return _values.text(name, _values.SHORT_LIMIT)


@dataclass(frozen=True, slots=True)
class Subject:
    """Names of the decorated function in events, determined when decorating."""

    tag: str | None
    """Agent name, if the function is an agent; its calls have their own spans."""
    given: str | None
    """Name given by the user."""
    name: str
    module: str | None = None

    @classmethod
    def of(cls, function: Function, agent: str | None) -> "Subject":
        """Create the subject of a function with an optional given `agent` name."""
        module = getattr(function, "__module__", None)
        return cls(agent_of(function), agent, agent or name_of(function), module)


def is_async(function: Function) -> bool:
    """Return whether calling a function returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - objects whose call is a coroutine
    )


def refuse_generators(function: Function, decorator: str) -> None:
    """Raise TypeError for generator functions, whose work cannot be repeated."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{decorator} cannot take a generator function: what it has already yielded cannot be"
            f" taken back; decorate the function that consumes it ({function!r})"
        )


def decorating(wrap: Callable[[Function], Function], function: Callable[P, R]) -> Callable[P, R]:
    """Apply a wrapper to a function, static method or class method."""
    if isinstance(function, (staticmethod, classmethod)):
        return cast("Callable[P, R]", type(function)(wrap(function.__func__)))
    if not callable(function):
        raise TypeError(f"a function is expected; got {function!r}")
    return cast("Callable[P, R]", wrap(function))


def classes_of(name: str, given: type[BaseException] | Classes) -> Classes:
    """Return one or several exception classes as a tuple."""
    classes = given if isinstance(given, tuple) else (given,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise TypeError(f"{name} takes an exception class or a tuple of them; got {each!r}")
    return classes


def number_of(name: str, value: object, *, above: bool = False) -> float:
    """Validate a number from 0 (`above`: above 0) when decorating."""
    number = _values.real(value)
    if number is None or number < 0 or (above and number == 0):
        raise ValueError(f"{name} is a number {'above' if above else 'from'} 0; got {value!r}")
    return number


def error_text(error: BaseException) -> str:
    """Format an exception as in the contract: `Type: message`."""
    failure = error_details.describe(error)
    if not failure.error_message:
        return failure.error_type
    return f"{failure.error_type}: {failure.error_message}"


def asked(what: str, question: Callable[..., Any], *values: object) -> Any:
    """Call a user's callback; return None with a warning if it raises."""
    try:
        return question(*values)
    except Exception as error:  # noqa: BLE001 - a failing callback must not fail the call
        guard.pass_on(error)
        guard.warn_once(
            f"resilience:{what}", "tracereel: %s raised and is ignored: %s", what, error_text(error)
        )
        return None
