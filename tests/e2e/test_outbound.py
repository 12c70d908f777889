"""Addresses in received data are never contacted: the collector connects only to its store."""

import socket
from urllib.parse import urlsplit

import psutil
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.collector import http
from tests.support.contract import example


@pytest.fixture
def trap():
    """Return a listening socket that detects any connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def address_of(trap):
    return f"http://127.0.0.1:{trap.getsockname()[1]}/trap"


def no_visitor(trap):
    try:
        trap.accept()[0].close()
    except BlockingIOError:
        return True
    return False


def outgoing(process):
    """Return the remote addresses that the process connected to."""
    connections = process.net_connections("tcp")
    own = {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}
    return {
        f"{each.raddr.ip}:{each.raddr.port}"
        for each in connections
        if each.raddr and each.laddr.port not in own
    }


def test_no_address_in_events_spans_or_headers_is_visited(collector, trace_id, trap):
    url = address_of(trap)
    event = {
        **example("agent.execution.completed"),
        "event_id": trace_id,
        "trace_id": trace_id,
        "reasoning": f"![picture]({url})",
        **dict.fromkeys(("webhook", "callback_url", "image_url", "$schema", "@type"), url),
    }
    spans = ExportTraceServiceRequest()
    resource = spans.resource_spans.add(schema_url=url)
    scope = resource.scope_spans.add(schema_url=url)
    span = scope.spans.add(trace_id=b"o" * 16, span_id=b"o" * 8, name=url)
    for key in ("url.full", "http.url", "server.address", "langfuse.webhook"):
        span.attributes.add(key=key).value.string_value = url
    named = dict.fromkeys(("Referer", "X-Forwarded-Host", "X-Forwarded-For", "Forwarded"), url)

    stored = collector.post_events([event], headers=named)
    sent = http(
        "POST",
        f"{collector.url}/v1/traces?wait=stored",
        spans.SerializeToString(),
        {"Content-Type": "application/x-protobuf", **named},
    )

    assert (stored.status, sent.status) == (200, 200)
    (entry,) = collector.replay(trace_id, headers=named).json()["timeline"]
    assert entry["details"]["webhook"] == url
    assert no_visitor(trap)
    store = http("GET", f"{collector.url}/readyz").json()["store"]["address"]
    assert outgoing(psutil.Process(collector.process.pid)) <= {store}
    assert [outgoing(engine) for engine in collector.engines()] == [set()]


@pytest.mark.parametrize("method", ["GET", "POST", "CONNECT"])
def test_collector_does_not_act_as_a_proxy(collector, trap, method):
    here, there = urlsplit(collector.url), address_of(trap)
    target = urlsplit(there).netloc if method == "CONNECT" else there
    with socket.create_connection((here.hostname, here.port), timeout=10) as asking:
        head = f"{method} {target} HTTP/1.1\r\nHost: {urlsplit(there).netloc}\r\n"
        asking.sendall(f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        status = asking.recv(1000).split(b" ")[1]

    assert status in (b"400", b"403", b"404", b"405")
    assert no_visitor(trap)


def test_the_engine_visits_no_address_for_a_statement(sql, trap):
    for statement in (
        f"SELECT * FROM url('{address_of(trap)}', CSV, 'a String')",
        f"SELECT * FROM s3('{address_of(trap)}', CSV, 'a String')",
        f"INSERT INTO FUNCTION url('{address_of(trap)}', CSV, 'a String') VALUES ('x')",
    ):
        with pytest.raises(Exception, match="497"):
            sql.command(statement)

    assert no_visitor(trap)
