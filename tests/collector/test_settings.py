"""Settings: explicit values first, then the environment; what cannot work is named."""

import pytest

from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError


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


@pytest.mark.parametrize("port", ["on", "70000", "-1"])
def test_a_port_that_cannot_be_is_named(port):
    with pytest.raises(StartupError, match=r"(?i)grpc_port"):
        Settings.load({"grpc_port": port}, {})
