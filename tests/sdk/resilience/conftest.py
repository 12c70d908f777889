"""Fixtures of the retry and fallback tests: a recording sleep, spans, event lookup."""

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.ingest_sink import IngestSink

Deliver = Callable[[], list[dict[str, Any]]]


class Naps(list[float]):
    """Replacement of `time.sleep` that records the delays."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)

    async def later(self, seconds: float) -> None:
        """Replacement of `asyncio.sleep`."""
        self.append(seconds)


@pytest.fixture
def naps() -> Naps:
    return Naps()


class UnseededIds(IdGenerator):
    """Ids independent of `random`, which Hypothesis reseeds: default ids would share one trace."""

    def generate_span_id(self) -> int:
        return secrets.randbits(63) + 1

    def generate_trace_id(self) -> int:
        return secrets.randbits(127) + 1


@pytest.fixture
def _own_traces(recorded: Deliver, sink: IngestSink, registry: CollectorRegistry) -> None:
    """Give each generated example its own trace."""
    provider = TracerProvider(shutdown_on_exit=False, id_generator=UnseededIds())
    tracereel.configure(endpoint=sink.url, tracer_provider=provider, registry=registry)


@pytest.fixture
def of_type(recorded: Deliver) -> Callable[[str], list[dict[str, Any]]]:
    """Deliver everything, then return the events of a type (the last part of its name)."""

    def find(kind: str) -> list[dict[str, Any]]:
        return [event for event in recorded() if str(event["event_type"]).endswith(kind)]

    return find
