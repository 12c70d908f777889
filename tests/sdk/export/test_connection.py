"""Connections to the collector: trusted certificates and proxies."""

import base64
import http.client
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.export.test_shipper import agent
from tests.support.ingest_sink import IngestSink
from tests.support.waiting import wait_until
from tracereel import FlushResult
from tracereel._export.http_client import Proxy, proxy_for

NAME = "collector.test"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    """Return the CA file of the collector's certificate."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


@contextmanager
def secure_sink(
    authority: trustme.CA, *, client_certificates: bool = False
) -> Iterator[IngestSink]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", NAME).configure_cert(tls)
    if client_certificates:
        authority.configure_trust(tls)
        tls.verify_mode = ssl.CERT_REQUIRED
    with IngestSink(tls=tls) as sink:
        yield sink


def deliver(endpoint: str, timeout: float = 20.0) -> FlushResult:
    tracereel.configure(endpoint=endpoint, registry=CollectorRegistry(), exit_timeout=0.5)
    agent(1)
    return tracereel.flush(timeout)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "OTEL_EXPORTER_OTLP_CERTIFICATE"])
def test_custom_ca_certificate_is_trusted_when_configured(
    authority: trustme.CA, trusted: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, trusted)
    with secure_sink(authority) as sink:
        assert deliver(sink.url) == FlushResult(2, 0, 0)
        assert [event["emitter_seq"] for event in sink.events] == [1, 2]


def test_nothing_is_sent_to_an_untrusted_server(
    authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    """Events wait, and the log has the reason."""
    with secure_sink(authority) as sink:
        assert deliver(sink.url, 0.5) == FlushResult(0, 2, 0)
        wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in caplog.text)
        assert sink.requests == []


def test_a_certificate_file_that_is_not_there_is_named_and_nothing_is_lost(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")
    with secure_sink(authority) as sink:
        assert deliver(sink.url, 0.5) == FlushResult(0, 2, 0)
        wait_until(lambda: "No such file" in caplog.text)


def test_client_certificate_is_sent_on_request(
    authority: trustme.CA, trusted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = authority.issue_cert("agent.test")
    own.cert_chain_pems[0].write_to_path(tmp_path / "agent.pem")
    own.private_key_pem.write_to_path(tmp_path / "agent.key")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", trusted)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(tmp_path / "agent.pem"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(tmp_path / "agent.key"))
    with secure_sink(authority, client_certificates=True) as sink:
        assert deliver(sink.url) == FlushResult(2, 0, 0)


@dataclass
class HttpProxy:
    """Proxy that resolves `collector.test` and records its requests."""

    asked: list[str] = field(default_factory=list)
    accounts: list[str | None] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def proxy() -> Iterator[HttpProxy]:
    noted = HttpProxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self._note()
            body = self.rfile.read(int(self.headers["content-length"]))
            passed = {name: each for name, each in self.headers.items() if "content-" in name}
            url = urlsplit(self.path)
            connection = http.client.HTTPConnection("127.0.0.1", url.port)
            connection.request("POST", url.path, body, passed)
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            self.send_response(answer.status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_CONNECT(self) -> None:
            self._note()
            there = socket.create_connection(("127.0.0.1", int(self.path.rpartition(":")[2])))
            self.send_response(200)
            self.end_headers()
            with there:
                while True:
                    for end in select.select([self.connection, there], [], [])[0]:
                        if not (data := end.recv(65_536)):
                            self.close_connection = True
                            return
                        (there if end is self.connection else self.connection).sendall(data)

        def _note(self) -> None:
            noted.asked.append(f"{self.command} {self.path}")
            noted.accounts.append(self.headers.get("proxy-authorization"))

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore clients that disconnect."""

    server = Server(("127.0.0.1", 0), Handler)
    noted.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield noted
    server.shutdown()
    server.server_close()


def test_proxy_from_the_environment_is_used(
    sink: IngestSink, proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://agent:s%40me@127.0.0.1:{proxy.port}")
    assert deliver(f"http://{NAME}:{sink.port}/prefix") == FlushResult(2, 0, 0)
    assert proxy.asked[0] == f"POST http://{NAME}:{sink.port}/prefix/v1/events"
    assert proxy.accounts[0] == "Basic " + base64.b64encode(b"agent:s@me").decode()


def test_https_goes_through_a_proxy_as_a_tunnel(
    authority: trustme.CA, trusted: str, proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector's certificate is verified by name through the tunnel."""
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    monkeypatch.setenv("https_proxy", f"127.0.0.1:{proxy.port}")
    with secure_sink(authority) as sink:
        assert deliver(f"https://{NAME}:{sink.port}") == FlushResult(2, 0, 0)
        assert [event["emitter_seq"] for event in sink.events] == [1, 2]
    assert proxy.asked[0] == f"CONNECT {NAME}:{sink.port}"


def test_loopback_bypasses_the_proxy(
    sink: IngestSink, proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
    assert deliver(sink.url) == FlushResult(2, 0, 0)
    assert proxy.asked == []


def test_which_proxy_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert proxy_for("a.example", secure=True) is None
    monkeypatch.setenv("HTTPS_PROXY", "http://p:3128")
    monkeypatch.setenv("no_proxy", "b.example,.inner.example")
    assert proxy_for("a.example", secure=True) == Proxy("p", 3128, {})
    assert proxy_for("a.example", secure=False) is None
    assert proxy_for("b.example", secure=True) is None
    assert proxy_for("c.inner.example", secure=True) is None
    assert proxy_for("localhost", secure=True) is None
    monkeypatch.setenv("HTTPS_PROXY", "socks5://p:1080")
    with pytest.raises(ValueError, match="kind 'socks5'; expected http://"):
        proxy_for("a.example", secure=True)
