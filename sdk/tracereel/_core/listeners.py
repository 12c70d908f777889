"""Callbacks of the program for the events of its executions."""

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakSet

import msgspec

from tracereel._redact import safe_access, values
from tracereel._runtime import guard

Listener = Callable[[dict[str, Any]], object]
"""Receives each event of an execution and of the executions inside, as it would be sent."""

injectable: Final[WeakSet[Any]] = WeakSet()
"""Test collectors that agents may carry. Usually empty, which callers check first."""
NAME: Final = "event_collector"
"""Argument or attribute with a test collector."""
_calling: ContextVar[bool] = ContextVar("tracereel_listeners", default=False)


def check_listener(listener: object) -> None:
    """Raise TypeError for a value that cannot be called with an event."""
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        raise TypeError(f"on_event is {listener!r}; expected a function that takes an event")


def notify(listeners: tuple[Listener, ...], event: dict[str, Any]) -> None:
    """Pass a copy of an event to each listener; errors of listeners are logged once."""
    if _calling.get():
        return  # a traced call inside of a listener
    token = _calling.set(True)
    try:
        for listener in listeners:
            try:
                listener(msgspec.json.decode(values.encode(event)))
            except Exception as error:  # noqa: BLE001 - code of the program
                guard.pass_on(error)
                guard.warn_once(
                    "listener",
                    "tracereel: a callback for events raised and is ignored: %s",
                    values.type_name(error),
                )
    finally:
        _calling.reset(token)


def injected(argument: object, owner: object) -> tuple[Listener, ...]:
    """Return the test collector that was passed to an agent or that its object carries."""
    carried = (argument, safe_access.attributes(owner, (NAME,)).get(NAME))
    return tuple(known for known in injectable if any(each is known for each in carried))
