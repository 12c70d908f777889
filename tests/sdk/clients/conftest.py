"""Fixtures of the tests with real clients: a stand-in server and in-memory events."""

import pytest
from agents.tracing import get_trace_provider, set_trace_provider
from agents.tracing.provider import DefaultTraceProvider
from prometheus_client import CollectorRegistry

from tests.sdk.clients.standin import StandIn
from tracereel._runtime import guard
from tracereel.events import parse_event
from tracereel.integrations import openai_agents
from tracereel.testing import EventRecorder


@pytest.fixture(scope="session")
def _server():
    server = StandIn()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def standin(_server):
    _server.reset()
    yield _server
    _server.reset()


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def events(monkeypatch, registry):
    """Return the recorded events; internal errors are raised and every event is validated."""
    monkeypatch.setenv("TRACEREEL_RAISE_INTERNAL_ERRORS", "1")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    guard._warned.clear()
    with EventRecorder(registry=registry) as recorder:
        yield recorder
    for event in recorder:
        parse_event(event)


@pytest.fixture
def own_agents_tracing(monkeypatch):
    """Give a test of the Agents SDK tracing of its own; what other modules instrumented stays."""
    monkeypatch.setattr(openai_agents, "_installed", [])
    before = get_trace_provider()
    # It lacks the SDK's default exporter, which would send to OpenAI.
    set_trace_provider(DefaultTraceProvider())
    yield
    set_trace_provider(before)
