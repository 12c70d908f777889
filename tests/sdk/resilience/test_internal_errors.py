"""Recording errors do not affect calls, retries and fallbacks."""

import asyncio

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracer

import tracereel
from tests.sdk.resilience.scripted import Scripted
from tracereel import traced_agent
from tracereel._runtime import guard
from tracereel.resilience import fallback, retry


class BrokenTracer(NoOpTracer):
    def __init__(self, real, prefixes):
        self._real = real
        self._prefixes = prefixes

    def start_span(self, name, *args, **options):
        if name.startswith(self._prefixes):
            raise RuntimeError("no spans today")
        return self._real.start_span(name, *args, **options)


class BrokenProvider(TracerProvider):
    def __init__(self, *prefixes):
        super().__init__(shutdown_on_exit=False)
        self._prefixes = prefixes

    def get_tracer(self, *args, **options):
        return BrokenTracer(super().get_tracer(*args, **options), self._prefixes)


@pytest.fixture(params=[("attempt",), ("retry", "fallback"), ("",)], ids=str)
def _broken(request, sink, monkeypatch):
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")
    guard.errors.clear()
    tracereel.configure(endpoint=sink.url, tracer_provider=BrokenProvider(*request.param))
    yield
    assert sum(guard.errors.values()) > 0


@pytest.mark.usefixtures("_broken")
def test_broken_spans_change_nothing(naps):
    agent = traced_agent("a")

    assert agent(retry(2, sleep=naps)(Scripted(OSError(), "done")))() == "done"
    assert retry(2, sleep=naps)(agent(Scripted(OSError(), "done")))() == "done"
    assert fallback(to=Scripted("backup"))(agent(Scripted(OSError())))() == "backup"
    assert agent(fallback(to=Scripted("backup"))(Scripted(OSError())))() == "backup"

    script = Scripted(OSError(), "done")

    @agent
    @retry(2, sleep=naps.later)
    async def later() -> str:
        return script()

    assert asyncio.run(later()) == "done"
    assert len(naps) == 3


def test_a_recorder_that_cannot_write_changes_nothing(tmp_path, monkeypatch, sink, naps):
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")
    nowhere = tmp_path / "file"
    nowhere.write_text("not a directory")
    tracereel.configure(endpoint=sink.url, spool_dir=nowhere / "spool")

    call = traced_agent("a")(retry(2, sleep=naps)(Scripted(OSError(), "done")))
    assert call() == "done"
