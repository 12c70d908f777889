"""The stock exporter with our HTTP session: trust, headers, and response handling."""

import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceFlags

from tests.support.otlp_sink import Answers, OtlpSink
from tests.support.redirecting import RedirectingServer
from tracereel import config
from tracereel._export.otlp import Attempt, span_export

SPAN = ReadableSpan(
    "GET", SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(1)), start_time=1, end_time=2
)


@pytest.fixture
def otlp() -> Iterator[OtlpSink]:
    with OtlpSink() as running:
        yield running


def send(url: str, **options: str) -> Attempt:
    export = span_export(config.load(endpoint=url, **options))
    try:
        return export.send([SPAN])
    finally:
        export.close()


def test_one_connection_carries_many_batches(otlp: OtlpSink) -> None:
    export = span_export(config.load(endpoint=otlp.url))
    assert [export.send([SPAN]).outcome for _ in range(5)] == ["taken"] * 5
    export.close()
    assert otlp.names == ["GET"] * 5
    assert otlp.connections == 1


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (Answers(), Attempt("taken")),
        (Answers(refused=1), Attempt("taken", rejected=1)),
        (Answers(status=400), Attempt("refused", "HTTP 400")),
        (Answers(status=413), Attempt("refused", "HTTP 413", splittable=True)),
        (Answers(status=500), Attempt("refused", "HTTP 500")),
        (Answers(status=503), Attempt("unavailable", "HTTP 503")),
        (
            Answers(status=429, headers={"retry-after": "7"}),
            Attempt("unavailable", "HTTP 429", retry_after=7.0),
        ),
        (
            Answers(content_type="text/html"),
            Attempt("unavailable", "HTTP 200 that is not a collector's"),
        ),
    ],
    ids=lambda value: value.reason or value.outcome if isinstance(value, Attempt) else "",
)
def test_exporter_sends_once_and_returns_the_outcome(
    otlp: OtlpSink, caplog: pytest.LogCaptureFixture, answers: Answers, expected: Attempt
) -> None:
    """The exporter neither retries by itself nor writes to the program's log."""
    otlp.answers = answers
    with caplog.at_level(logging.INFO):
        assert send(otlp.url) == expected
    assert otlp.requests == 1
    assert caplog.text == ""


def test_refused_connection_and_timeout_are_distinguished(
    otlp: OtlpSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.05")
    otlp.answers = Answers(hang=True)
    hangs = send(otlp.url)
    with OtlpSink() as gone:
        pass
    away = send(gone.url)
    assert (hangs.outcome, hangs.no_connection) == ("unavailable", False)
    assert (away.outcome, away.no_connection) == ("unavailable", True)


def test_a_huge_answer_is_not_read_to_its_end(otlp: OtlpSink) -> None:
    otlp.answers = Answers(status=503, body=b"x" * 10_000_000)
    reason = "BodyTooLargeError: an answer of more than 4194304 bytes"
    assert send(otlp.url) == Attempt("unavailable", reason)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nx-padding: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_never_ends_ends_with_the_timeout(
    monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    """Even if single bytes keep arriving."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    server = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def answer() -> None:
        client, _ = server.accept()
        with client, contextlib.suppress(OSError):
            client.sendall(head)
            while not ended.wait(0.02):
                client.sendall(b"x")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        assert send(f"http://127.0.0.1:{server.getsockname()[1]}").outcome == "unavailable"
    finally:
        ended.set()
        thread.join()
        server.close()


def test_a_redirect_is_not_followed() -> None:
    elsewhere = RedirectingServer()
    server = RedirectingServer(f"http://127.0.0.1:{elsewhere.port}/")
    try:
        assert send(f"http://127.0.0.1:{server.port}").outcome == "refused"
        assert (len(server.asked), elsewhere.asked) == (1, [])
    finally:
        server.close()
        elsewhere.close()


def test_keys_for_other_destinations_stay(
    otlp: OtlpSink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Headers of OpenTelemetry's variables are for their endpoint; `.netrc` is not used."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ana password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2,x-vendor-key=hunter2")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-api-key=hunter2")
    assert send(otlp.url, api_key="sesame").outcome == "taken"
    assert otlp.headers["x-api-key"] == "sesame"
    assert "hunter2" not in str(otlp.headers)
    assert not {"authorization", "x-vendor-key", "cookie"} & otlp.headers.keys()


@pytest.mark.parametrize(("compression", "encoding"), [("gzip", "gzip"), ("auto", None)])
def test_bodies_are_compressed_as_configured(
    otlp: OtlpSink, monkeypatch: pytest.MonkeyPatch, compression: str, encoding: str | None
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "deflate")
    assert send(otlp.url, compression=compression).outcome == "taken"
    assert otlp.headers.get("content-encoding") == encoding
    assert otlp.names == ["GET"]


def test_loopback_bypasses_the_proxy(otlp: OtlpSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    assert send(otlp.url).outcome == "taken"


def test_proxy_from_the_environment_is_used(
    otlp: OtlpSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://agent:s%40me@127.0.0.1:{otlp.port}")
    assert send("http://collector.test:4318/prefix").outcome == "taken"
    assert otlp.path == "http://collector.test:4318/prefix/v1/traces"
    assert otlp.headers["proxy-authorization"] == "Basic YWdlbnQ6c0BtZQ=="


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[OtlpSink]:
    """Also with a collector that requests a client certificate."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_OPTIONAL
    with OtlpSink(tls=tls) as running:
        yield running


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "OTEL_EXPORTER_OTLP_CERTIFICATE"])
def test_custom_ca_certificate_is_trusted_when_configured(
    secure: OtlpSink, trusted: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, trusted)
    assert send(secure.url).outcome == "taken"


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NONE"])
def test_nothing_is_sent_to_an_untrusted_server(
    secure: OtlpSink, trusted: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, trusted)
    attempt = send(secure.url)
    assert attempt.outcome == "unavailable"
    assert "SSLCertVerificationError" in attempt.reason
    assert secure.requests == 0


def test_client_certificate_is_sent_on_request(
    authority: trustme.CA,
    secure: OtlpSink,
    trusted: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    own = authority.issue_cert("agent.test")
    own.cert_chain_pems[0].write_to_path(tmp_path / "agent.pem")
    own.private_key_pem.write_to_path(tmp_path / "agent.key")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", trusted)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(tmp_path / "agent.pem"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(tmp_path / "agent.key"))
    assert send(secure.url).outcome == "taken"
    assert secure.client_certificate


def test_missing_certificate_file_is_a_retryable_error(
    secure: OtlpSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")
    attempt = send(secure.url)
    assert attempt.outcome == "unavailable"
    assert "FileNotFoundError" in attempt.reason
