"""The metrics server: what it serves, and on which port."""

import socket
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)

from tests.sdk.conftest import Child
from tracereel import metrics_server, traced_agent
from tracereel.metrics_server import start_metrics_server

Deliver = Callable[[], list[dict[str, Any]]]


def test_the_server_serves_what_configure_was_given(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    traced_agent("served")(lambda: None)()
    server = start_metrics_server(0)
    assert server is not None
    with server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        with urlopen(url, timeout=20) as answer:
            text = answer.read().decode()
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        with urlopen(Request(url, headers=accept), timeout=20) as answer:
            open_metrics = answer.read().decode()
    assert 'agent_executions_total{agent_name="served",status="success"} 1.0' in text
    assert "trace_id=" in open_metrics
    assert list(openmetrics_families(open_metrics))
    server.close()


def test_taken_metrics_port_is_logged_and_not_raised(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert start_metrics_server(port, registry=registry) is None
    assert f"no metrics on 127.0.0.1:{port}" in caplog.text
    assert start_metrics_server(70_000, registry=registry) is None
    assert start_metrics_server(0, addr="no.such.host.invalid", registry=registry) is None


def test_another_port_is_used_and_named_if_prometheus_has_9090(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken, socket.socket() as also_taken, socket.socket() as reserved:
        for each in (taken, also_taken, reserved):
            each.bind(("127.0.0.1", 0))
        taken.listen()
        also_taken.listen()
        default, first, free = (s.getsockname()[1] for s in (taken, also_taken, reserved))
        reserved.close()
        monkeypatch.setattr(metrics_server, "DEFAULT_PORT", default)
        monkeypatch.setattr(metrics_server, "NEXT_PORTS", (first, free))
        server = start_metrics_server(default, registry=registry)
        assert server is not None
        with server:
            assert server.port == free
            said = f"port {default} is taken; metrics are at http://127.0.0.1:{free}/metrics"
            assert said in caplog.text
            assert start_metrics_server(default, registry=registry) is None


def test_a_program_without_logging_reads_the_port_on_standard_error(child: Child) -> None:
    process = child(
        """
        import socket
        from tracereel import metrics_server
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = metrics_server.DEFAULT_PORT = taken.getsockname()[1]
            metrics_server.NEXT_PORTS = (0,)
            with metrics_server.start_metrics_server(port) as server:
                print(f"tracereel: port {port} is taken; metrics are at"
                      f" http://127.0.0.1:{server.port}/metrics")
        """
    )
    out, err = process.communicate(timeout=60)
    assert err == out != ""
