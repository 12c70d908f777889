"""What the tests of real clients share: one stand-in for the servers, and events in memory."""

import pytest
from prometheus_client import CollectorRegistry

from tests.clients.standin import StandIn
from tracereel import _guard
from tracereel.events import parse_event
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
    """The events of a test; our own errors are raised, and every event keeps to the contract."""
    monkeypatch.setenv("TRACEREEL_RAISE_INTERNAL_ERRORS", "1")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    _guard._said.clear()
    with EventRecorder(registry=registry) as recorder:
        yield recorder
    for event in recorder:
        parse_event(event)
