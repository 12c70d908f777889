"""Arguments and results that cannot be inspected: the call works and has both events."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.ingest_sink import IngestSink
from tracereel import traced_agent, traced_pipeline, traced_tool

Deliver = Callable[[], list[dict[str, Any]]]


def raising(error: type[Exception]) -> type:
    """Return a class that raises this error on every access."""

    def fail(*_: object) -> Any:
        raise error("looked at")

    names = ("__repr__", "__str__", "__len__", "__iter__", "__getitem__", "__bool__", "__eq__")
    more = ("__hash__", "__getattr__", "__int__", "__float__", "__reduce__", "__format__")
    return type(f"Raises{error.__name__}", (), dict.fromkeys((*names, *more), fail))


class Bottomless:
    """Object whose repr recurses until the stack overflows."""

    def __repr__(self) -> str:
        return repr(self)


class Evaluated:
    """Object whose inspection starts a query."""

    def __init__(self) -> None:
        self.queries = 0

    def __iter__(self) -> Iterator[int]:
        self.queries += 1
        return iter(range(10))

    def __len__(self) -> int:
        self.queries += 1
        return 10

    @property
    def rows(self) -> list[int]:
        self.queries += 1
        return []


def cyclic() -> list[Any]:
    inner: dict[Any, Any] = {}
    outer = [inner]
    inner["outer"] = outer
    inner[("a", 1)] = inner
    return outer


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


HOSTILE: dict[str, Callable[[], Any]] = {
    "MemoryError": raising(MemoryError),
    "RecursionError": raising(RecursionError),
    "bottomless": Bottomless,
    "cyclic": cyclic,
    "deep": deep,
    "huge list": lambda: [0] * 5_000_000,
    "huge text": lambda: "x" * 50_000_000,
    "huge number": lambda: 10**10_000,
    "lazy": Evaluated,
    "generator": lambda: (number for number in range(3)),
    "lock": threading.Lock,
    "event loop": asyncio.new_event_loop,
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"\xff\xfe" * 10,
    "class": lambda: int,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_arguments_and_results_do_not_affect_the_call(
    recorded: Deliver, sink: IngestSink, name: str
) -> None:
    value = HOSTILE[name]()

    @traced_tool("t")
    def tool(given: Any, *, named: Any) -> Any:
        return given

    @traced_agent("a")
    def agent(given: Any, *, named: Any) -> Any:
        return tool(given, named=given)

    @traced_agent("f")
    def fail(given: Any) -> Any:
        raise ValueError(given)

    @traced_pipeline("p")
    def pipeline(given: Any) -> Any:
        with pytest.raises(ValueError):  # noqa: PT011 - its text may raise
            fail(given)
        return agent(given, named=[given])

    assert pipeline(value) is value
    assert len(recorded()) == 7
    assert max(len(line) for request in sink.requests for line in request.lines) < 1_000_000
    if isinstance(value, Evaluated):
        assert value.queries == 0
    if isinstance(value, Iterator):
        assert list(value) == [0, 1, 2]
    if isinstance(value, asyncio.AbstractEventLoop):
        value.close()
    if isinstance(value, list) and len(value) == 1:
        # Taken apart from outside in: freeing it at once would need a stack as deep as the data.
        while value and isinstance(value[0], list):
            value = value[0]
