"""SDK fixtures: a sink, a recorder configured to it, and child processes that use it."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.ingest_sink import IngestSink
from tests.support.waiting import wait_until
from tracereel._core import recorder as _recorder
from tracereel._core import remote_identity
from tracereel._export.destinations import RECORD_SUFFIX
from tracereel._runtime import guard
from tracereel.events import parse_event

SDK = Path(tracereel.__file__).parent.parent


@pytest.fixture(autouse=True)
def _clean_sdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Start each test unconfigured, with its own spool, and raise internal errors."""
    for name in list(os.environ):
        if name.startswith(("TRACEREEL_", "OTEL_")) or name in (
            "TRACEPARENT",
            "TRACESTATE",
            "BAGGAGE",
        ):
            monkeypatch.delenv(name)
    monkeypatch.setattr(remote_identity, "_process", "unread")
    monkeypatch.setenv("TRACEREEL_RAISE_INTERNAL_ERRORS", "1")
    # A global tracer provider would stay for all later tests of the process.
    monkeypatch.setenv("TRACEREEL_SET_TRACER_PROVIDER", "0")
    monkeypatch.setenv("TRACEREEL_SPOOL_DIR", str(tmp_path / "spool"))
    guard._warned.clear()
    before = _recorder._active
    _recorder._active = "unset"
    yield
    if (recorder := _recorder._active) not in ("unset", None):
        recorder.close(1.0, at_exit=True)
    _recorder._active = before


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def sink() -> Iterator[IngestSink]:
    with IngestSink() as running:
        yield running
        for event in running.events:
            parse_event(event)


@pytest.fixture
def recorded(
    sink: IngestSink, registry: CollectorRegistry
) -> Callable[[], list[dict[str, object]]]:
    """Configure the SDK to the sink; call the result to deliver and return the events."""
    tracereel.configure(endpoint=sink.url, service="tests", registry=registry)

    def deliver() -> list[dict[str, object]]:
        result = tracereel.flush(20.0)
        assert result.spooled == 0
        return list(sink.events)

    return deliver


@pytest.fixture
def spans(
    recorded: Callable[[], list[dict[str, object]]], sink: IngestSink, registry: CollectorRegistry
) -> InMemorySpanExporter:
    """Configure the SDK again, with a tracer provider of the program."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracereel.configure(endpoint=sink.url, tracer_provider=provider, registry=registry)
    return exporter


Child = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    """Start a Python child that uses the SDK, with the environment of the test."""
    children: list[subprocess.Popen[str]] = []

    def start(code: str, **env: str) -> subprocess.Popen[str]:
        script = tmp_path / f"child_{len(children)}.py"
        script.write_text(textwrap.dedent(code))
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(SDK), **env},
        )
        children.append(process)
        return process

    yield start
    for process in children:
        try:
            # The whole session: a hanging forked grandchild would keep the pipes open.
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()


def spool_files(directory: Path) -> list[str]:
    """Return names of emitter files under a spool directory, without destination records."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return sorted(path.name for path in found if path.suffix != RECORD_SUFFIX)


def wait_for_events(sink: IngestSink, count: int) -> None:
    wait_until(lambda: len(sink.events) >= count, message=f"{count} events, got {len(sink.events)}")
