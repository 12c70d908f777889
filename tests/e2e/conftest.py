"""Collectors for the end-to-end tests: one shared, and fresh ones for destructive tests."""

import uuid

import clickhouse_connect
import pytest

from tests.support.browser import browser, seeded, visit, visits
from tests.support.collector import CollectorProcess, free_port, http

__all__ = ["browser", "seeded", "visit", "visits"]


def pytest_collection_modifyitems(items):
    for item in items:
        if "/e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def collector(tmp_path_factory):
    """Return the shared collector, which no test may stop."""
    running = CollectorProcess(
        tmp_path_factory.mktemp("collector"),
        arguments=("--local-admin",),
        grpc_port=free_port(),
        fresh=True,
    ).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def sql(collector):
    """Return a ClickHouse client on the embedded engine."""
    store = http("GET", f"{collector.url}/readyz").json()["store"]
    host, port = store["address"].split(":")
    client = clickhouse_connect.get_client(
        host=host,
        port=int(port),
        username="tracereel",
        password=(collector.data_dir / "store" / "engine.secret").read_text().strip(),
        database="tracereel",
    )
    yield client
    client.close()


@pytest.fixture
def new_collector(tmp_path):
    """Return a factory of collectors that are removed after the test."""
    made = []

    def make(data_dir=None, **options):
        process = CollectorProcess(data_dir or tmp_path / "data", **options)
        made.append(process)
        return process

    yield make
    for process in made:
        if process.process is not None and process.process.poll() is None:
            process.kill()


@pytest.fixture
def trace_id():
    """Return an unused trace id."""
    return f"trc_{uuid.uuid4().hex}"
