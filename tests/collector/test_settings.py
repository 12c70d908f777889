"""Collector settings: arguments first, then the environment; invalid values are named."""

import socket

import pytest

from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.processes import http_server


@pytest.mark.parametrize(
    ("given", "environ", "port"),
    [
        ({}, {}, 4317),
        ({"grpc_port": "off"}, {}, 0),
        ({}, {"TRACEREEL_GRPC_PORT": "off"}, 0),
        ({}, {"TRACEREEL_GRPC_PORT": "0"}, 0),
        ({"grpc_port": "5000"}, {"TRACEREEL_GRPC_PORT": "off"}, 5000),
    ],
)
def test_the_port_for_grpc_may_be_off(given, environ, port):
    assert Settings.load(given, environ).grpc_port == port


@pytest.mark.parametrize("url", ["jaeger:16686", "javascript:alert(1)", "//jaeger"])
def test_an_address_of_jaeger_that_no_browser_can_open_is_named(url):
    with pytest.raises(StartupError, match="jaeger_url"):
        Settings.load({}, {"TRACEREEL_JAEGER_URL": url})


def test_one_port_for_http_and_grpc_is_refused_with_both_named():
    with pytest.raises(StartupError, match=r"port=5000 and grpc_port=5000: expected two ports"):
        Settings.load({"port": 5000, "grpc_port": "5000"}, {})


def test_no_port_for_grpc_goes_with_any_free_one_for_http():
    assert Settings.load({"port": 0, "grpc_port": "off"}, {}).port == 0


@pytest.mark.parametrize(
    ("host", "option", "advice"),
    [
        ("192.0.2.1", "--port", "name an address of this machine with --host"),
        ("127.0.0.1", "--port", "stop what uses the port, or choose another with --port"),
        ("127.0.0.1", "--grpc-port", "another with --grpc-port, or none with off"),
    ],
)
def test_listen_error_contains_a_hint(monkeypatch, host, option, advice):
    monkeypatch.setattr(http_server, "PREDECESSOR_SECONDS", 0)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(StartupError, match=f"cannot listen on {host}") as refused,
    ):
        http_server.listen(host, taken.getsockname()[1], option=option)

    assert (refused.value.hint or "").endswith(advice)


@pytest.mark.parametrize("port", ["on", "70000", "-1"])
def test_invalid_port_is_named(port):
    with pytest.raises(StartupError, match=r"(?i)grpc_port"):
        Settings.load({"grpc_port": port}, {})
