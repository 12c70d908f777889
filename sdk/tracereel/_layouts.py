"""Which fields of an event have to be looked at, worked out once for all events that are built alike.

Events of a kind have the same fields with values of the same types, call after call. To ask each field
each time what it is takes longer than to look at the few that could hold something.
"""

from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

MAX_LAYOUTS: Final = 1_024
REQUEST_ID: Final = "request_id"

Take = Callable[[Mapping[str, Any]], tuple[Any, ...]]


class Layout(NamedTuple):
    """Where an event of this build has something to look at."""

    labels: Take
    """The values of labels."""
    texts: Take
    """Other texts, without the request id."""
    has_request_id: bool
    others: tuple[str, ...]
    """Fields that are neither text nor number."""


class Layouts:
    """The layouts of the events seen so far."""

    __slots__ = ("_known", "_labels", "_untouched")

    def __init__(self, labels: Collection[str], untouched: Collection[str]) -> None:
        self._labels = labels
        self._untouched = untouched
        self._known: dict[tuple[object, ...], Layout] = {}

    def of(self, event: Mapping[str, Any]) -> Layout:
        """The layout of an event."""
        # Types by id: a class of the user's may not like to be hashed. Those that matter never go.
        key = (*event, *map(id, map(type, event.values())))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_LAYOUTS:
                self._known.clear()
            found = self._known[key] = self._work_out(event)
        return found

    def _work_out(self, event: Mapping[str, Any]) -> Layout:
        labels: list[str] = []
        texts: list[str] = []
        others: list[str] = []
        for name, value in event.items():
            kind = type(value)
            if kind is str:
                if name in self._labels:
                    labels.append(name)
                elif name not in self._untouched:
                    texts.append(name)
            elif value is not None and not (kind is int or kind is float or kind is bool):
                others.append(name)
        has_request_id = REQUEST_ID in texts
        if has_request_id:
            texts.remove(REQUEST_ID)
        return Layout(_take(labels), _take(texts), has_request_id, tuple(others))


def _take(names: list[str]) -> Take:
    if not names:
        return _nothing
    # Of one name it would give the value itself, of the same name twice a tuple.
    return itemgetter(*names) if len(names) > 1 else itemgetter(names[0], names[0])


def _nothing(_event: Mapping[str, Any]) -> tuple[Any, ...]:
    return ()
