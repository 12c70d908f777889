"""Requests with a key or data go to the configured address only; redirects are not followed."""

import argparse

import pytest

from tests.support.redirecting import RedirectingServer
from tracereel_collector.commands import retention
from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.otlp_out.forward.forwarder import ForwardConnection
from tracereel_collector.otlp_out.forward.target import parse_target
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress


@pytest.fixture
def elsewhere():
    server = RedirectingServer()
    yield server
    server.close()


@pytest.fixture(params=[302, 307])
def redirecting(elsewhere, request):
    server = RedirectingServer(f"http://127.0.0.1:{elsewhere.port}/", status=request.param)
    yield server
    server.close()


def test_a_redirect_is_not_followed(redirecting, elsewhere):
    """Data for the store would go to the host that the response names."""
    address = StoreAddress(
        host="127.0.0.1", port=redirecting.port, username="u", password="p", database="d"
    )
    store = ClickHouseStore(address, query_seconds=5, query_memory_bytes=10**9)
    try:
        with pytest.raises(StoreUnavailableError):
            store.command("SELECT 1")
        assert redirecting.asked
        assert elsewhere.asked == []
    finally:
        store.close()


def test_forwarder_does_not_follow_a_redirect(redirecting, elsewhere):
    target = parse_target(f"http://127.0.0.1:{redirecting.port}", "x-api-key=secret")
    connection = ForwardConnection(target, seconds=5)
    try:
        assert connection.post("traces", b"", passed="x").outcome == "refused"
    finally:
        connection.close()
    assert redirecting.asked
    assert elsewhere.asked == []


def test_command_does_not_follow_a_redirect(redirecting, elsewhere, capsys):
    args = argparse.Namespace(
        command="retention",
        verb="show",
        days=None,
        json=False,
        endpoint=f"http://127.0.0.1:{redirecting.port}",
        api_key="secret",
    )

    assert retention.COMMAND.run(args) == 2

    assert f"answered {redirecting.status}" in capsys.readouterr().err
    assert redirecting.asked
    assert elsewhere.asked == []
