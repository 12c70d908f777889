"""Files in `deploy/`: units that systemd accepts, and a proxy that works with real clients."""

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
import trustme
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.collector import free_port
from tests.support.keys import make_key
from tests.support.waiting import wait_until

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
NGINX = os.environ.get("TRACEREEL_TEST_NGINX") or shutil.which("nginx")
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path):
    command = Path(sys.executable).with_name("tracereel")
    for unit in DEPLOY.glob("tracereel*.*"):
        # The unit names absolute paths, which differ here.
        text = unit.read_text().replace("/opt/tracereel/bin/tracereel", str(command))
        (tmp_path / unit.name).write_text(text)

    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )

    mine = [line for line in done.stderr.splitlines() if "tracereel" in line]
    assert (done.returncode, mine) == (0, [])


def test_units_and_proxy_name_only_options_and_ports_that_there_are():
    unit = (DEPLOY / "tracereel.service").read_text()
    start = re.search(r"ExecStart=\S+ (serve .*)", unit).group(1).split()
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", *start, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", (DEPLOY / "nginx.conf").read_text())) == {
        "4317",
        "4318",
    }


@contextmanager
def nginx(collector, place, port):
    """Run nginx with our configuration in front of a collector; `place` has the CA certificate."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(place / "fullchain.pem")
    certificate.private_key_pem.write_to_path(place / "key.pem")
    authority.cert_pem.write_to_path(place / "ca.pem")
    ours = (DEPLOY / "nginx.conf").read_text()
    for old, new in (
        ("127.0.0.1:4318", collector.url.removeprefix("http://")),
        ("127.0.0.1:4317", f"127.0.0.1:{collector.grpc_port or 9}"),
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("tracereel.example.com", "localhost"),
        ("/etc/ssl/tracereel", str(place)),
    ):
        assert old in ours
        ours = ours.replace(old, new)
    temporary = "".join(
        f"{kind}_temp_path {place}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (place / "nginx.conf").write_text(
        f"daemon off; pid {place}/pid; error_log {place}/error.log; worker_processes 1;\n"
        f"events {{}}\nhttp {{ access_log off;\n{temporary}{ours} }}\n"
    )
    running = subprocess.Popen([NGINX, "-p", str(place), "-c", str(place / "nginx.conf")])
    try:
        wait_until(lambda: answers(port, place) or running.poll() is not None, timeout=20)
        assert running.poll() is None, (place / "error.log").read_text()
        yield
    finally:
        running.terminate()
        running.wait()


@pytest.fixture(scope="module")
def proxied(collector, tmp_path_factory):
    """Return the port of nginx in front of a collector, and the directory of its CA."""
    if not NGINX:
        pytest.skip("needs nginx")
    place, port = tmp_path_factory.mktemp("nginx"), free_port()
    with nginx(collector, place, port):
        yield port, place


def ask(proxied, path, body=None):
    port, place = proxied
    context = ssl.create_default_context(cafile=str(place / "ca.pem"))
    request = urllib.request.Request(f"https://localhost:{port}{path}", data=body)
    return urllib.request.urlopen(request, timeout=20, context=context)


def answers(port, place):
    try:
        return ask((port, place), "/healthz").status == 200
    except OSError:
        return False


def event(trace_id):
    return json.dumps(
        {
            "event_id": f"{trace_id}-1",
            "event_type": "custom.proxied",
            "timestamp": "2026-01-23T10:00:00Z",
            "trace_id": trace_id,
        }
    ).encode()


def test_events_and_queries_pass_and_metrics_stay_inside(proxied, trace_id):
    with ask(proxied, "/v1/events?wait=stored", event(trace_id)) as answer:
        assert json.loads(answer.read())["status"] == "stored"
    with ask(proxied, f"/v1/replay/{trace_id}") as answer:
        assert json.loads(answer.read())["summary"]["total_events"] == 1
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(proxied, "/metrics")


def test_a_live_stream_is_not_held_back(proxied, trace_id):
    seen = []

    def watch():
        with ask(proxied, "/v1/tail") as stream:
            for line in stream:
                seen.append((time.monotonic(), line.decode()))
                if trace_id in line.decode():
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    wait_until(lambda: seen, message="the stream should say something at once")
    with ask(proxied, "/v1/events", event(trace_id)) as answer:
        assert answer.status == 200
    thread.join(20)

    assert any(trace_id in line for _, line in seen)


def test_otlp_over_grpc_passes_on_the_same_port(proxied):
    port, place = proxied
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="proxied")
    span.trace_id, span.span_id = os.urandom(16), os.urandom(8)
    span.start_time_unix_nano = span.end_time_unix_nano = time.time_ns()
    secure = grpc.ssl_channel_credentials((place / "ca.pem").read_bytes())
    with grpc.secure_channel(f"localhost:{port}", secure) as channel:
        export = channel.unary_unary(
            EXPORT,
            request_serializer=ExportTraceServiceRequest.SerializeToString,
            response_deserializer=ExportTraceServiceResponse.FromString,
        )
        answer = export(request, timeout=20)

    assert answer.partial_success.rejected_spans == 0


@pytest.mark.skipif(not NGINX, reason="needs nginx")
def test_a_browser_logs_in_through_tls_with_a_secure_session(browser, new_collector, tmp_path):
    """The proxy passes a `Host` without the port, so the origin comes from the public URL."""
    port = free_port()
    url = f"https://localhost:{port}"
    key = make_key(tmp_path / "data", scope="read")["key"]
    collector = new_collector(environ={"TRACEREEL_PUBLIC_URL": url}).start()
    (tmp_path / "nginx").mkdir()
    with nginx(collector, tmp_path / "nginx", port):
        context = browser.new_context(ignore_https_errors=True)
        page = context.new_page()
        page.goto(f"{url}/#/runs")
        page.get_by_label("Key", exact=True).fill(key)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="No run has been recorded yet").wait_for()

        (cookie,) = context.cookies()
        assert (cookie["name"], cookie["secure"]) == ("__Host-tracereel_session", True)
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("heading", name="Log in with a key").wait_for()
        assert context.cookies() == []
        context.close()
