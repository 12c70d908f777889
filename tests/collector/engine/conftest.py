"""Engine shared by all tests that do not damage it, and clients for it."""

import http.client
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest

from tracereel_collector.engine import EngineSettings, Supervisor

Connect = Callable[..., Any]
Http = Callable[..., tuple[int, dict[str, str], bytes]]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    settings = EngineSettings(
        store_dir=tmp_path_factory.mktemp("store"), max_body_bytes=24 * 1024 * 1024
    )
    with Supervisor(settings) as supervisor:
        yield supervisor


def connect_to(supervisor: Supervisor, **options: Any) -> Any:
    options = {"username": "anybody", "password": supervisor.secret, **options}
    return clickhouse_connect.get_client(
        host=supervisor.host,
        port=supervisor.port,
        autogenerate_session_id=False,
        **options,
    )


@pytest.fixture
def connect(engine: Supervisor) -> Iterator[Connect]:
    opened: list[Any] = []

    def make(**options: Any) -> Any:
        opened.append(connect_to(engine, **options))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def client(connect: Connect) -> Any:
    return connect()


@pytest.fixture
def http_call(engine: Supervisor) -> Http:
    """Send one plain HTTP request; return status, headers in lower case, and body."""

    def call(
        method: str,
        target: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        secret: str | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(engine.host, engine.port, timeout=30)
        try:
            key = {"X-ClickHouse-Key": engine.secret if secret is None else secret}
            connection.request(method, target, body, headers={**key, **(headers or {})})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            connection.close()

    return call


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    return EngineSettings(store_dir=tmp_path / "store", lock_wait_seconds=0.5)
