"""Calls whose closing event cannot be built."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tracereel import traced_agent
from tracereel._core import recorder


def closed_early() -> None:
    @traced_agent("a")
    def items() -> Iterator[int]:
        try:
            yield 1
        except GeneratorExit:
            return

    started = items()
    next(started)
    started.close()


def raised() -> None:
    with pytest.raises(LookupError), traced_agent("a"):
        raise LookupError("other")


def cancelled() -> None:
    with pytest.raises(asyncio.CancelledError), traced_agent("a"):
        raise asyncio.CancelledError


def returned() -> None:
    with traced_agent("a"):
        pass


@pytest.mark.parametrize(
    ("call", "closing", "status"),
    [
        (returned, "closing", "UNSET"),
        (raised, "closing_failed", "ERROR"),
        (cancelled, "closing_cancelled", "UNSET"),
        (closed_early, "closing_cancelled", "UNSET"),
    ],
)
def test_a_call_whose_closing_event_cannot_be_built_ends_its_span_and_counts_a_drop(
    spans: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[], None],
    closing: str,
    status: str,
) -> None:
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")
    monkeypatch.setattr(f"tracereel._core.executions.agent.AgentScope.{closing}", lambda *_: 1 / 0)

    call()

    assert [span.status.status_code.name for span in spans.get_finished_spans()] == [status]
    active = recorder.active()
    assert active is not None
    assert active.drops() == {"internal_error": 1}
