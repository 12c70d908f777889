"""Real engine, and the fixtures of tests with real clients."""

import pytest

from tests.sdk.clients.conftest import _server, events, registry, standin
from tests.support.engine_store import store_of_its_own

__all__ = ["_server", "events", "registry", "standin"]


@pytest.fixture(scope="session")
def store():
    """Return a store with all tables."""
    with store_of_its_own() as made:
        yield made
