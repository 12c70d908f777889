"""An emitter that dies in a burst is listed with its missing tail until the tail arrives."""

import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.collector import http
from tests.support.waiting import wait_until

BURST = """
import itertools, threading, tracereel

@tracereel.traced_agent("a")
def agent(number):
    return number

for number in itertools.count():
    agent(number)
    if number % 20 == 0:
        threading.Event().wait(0.01)  # the disk of the machine is not what is tested
"""
ONE_CALL = """
import tracereel

@tracereel.traced_agent("a")
def agent():
    return 1

agent()
"""


class Gate:
    """Proxy to a collector that can pass heartbeats while it refuses events."""

    def __init__(self, url):
        self.closed = threading.Event()
        self.passed = 0
        """Events that were passed on."""
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if gate.closed.is_set() and self.path == "/v1/events":
                    self.send_error(503)
                    return
                if self.path == "/v1/events":
                    gate.passed += body.count(b"\n")
                kind = {"content-type": self.headers["content-type"]}
                answer = http("POST", url + self.path, body, kind)
                self.send_response(answer.status)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *args):
                """Log nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                """Ignore clients that were killed during a request."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def gate(collector):
    standing = Gate(collector.url)
    yield standing
    standing.close()


def start(script, spool, gate, service):
    environ = {
        **os.environ,
        "TRACEREEL_ENDPOINT": gate.url,
        "TRACEREEL_SPOOL_DIR": str(spool),
        "TRACEREEL_SERVICE": service,
        "TRACEREEL_HEARTBEAT_SECONDS": "0.2",
    }
    return subprocess.Popen([sys.executable, "-c", script], env=environ)


def emitters(collector, **filters):
    asked = "&".join(f"{name}={value}" for name, value in filters.items())
    answer = http("GET", f"{collector.url}/v1/emitters?{asked}")
    assert answer.status == 200, answer.body
    return answer.json()["emitters"]


@pytest.mark.fault
def test_a_killed_emitter_is_silent_with_its_tail_missing_until_that_is_shipped(
    collector, gate, tmp_path, trace_id
):
    process = start(BURST, tmp_path, gate, trace_id)
    wait_until(lambda: [each["stored"] for each in emitters(collector, service=trace_id)] > [100])
    gate.closed.set()
    (before,) = emitters(collector, service=trace_id)
    wait_until(
        lambda: [
            each
            for each in emitters(collector, service=trace_id)
            if each["claimed"] > each["stored"] + 100
            # Events in flight are stored too; nothing is stored from here on.
            and each["stored"] == gate.passed
            and each["claimed"] > before["claimed"]
        ]
    )
    process.send_signal(signal.SIGKILL)
    process.wait()

    (silent,) = wait_until(lambda: emitters(collector, service=trace_id, state="silent"))
    assert silent["claimed"] > silent["stored"] > 0
    assert silent["missing"] == silent["claimed"] - silent["stored"]
    assert silent["pid"] == process.pid

    gate.closed.clear()
    successor = start(ONE_CALL, tmp_path, gate, trace_id)
    assert successor.wait() == 0
    wait_until(lambda: not list(tmp_path.rglob("*.ndjson")) or ship(tmp_path, gate))

    def settled():
        found = emitters(collector, emitter_id=silent["emitter_id"])
        return found if found[0]["missing"] == 0 and found[0]["state"] == "recovered" else None

    (recovered,) = wait_until(settled)
    assert recovered["claimed"] == recovered["stored"] >= silent["claimed"]
    (orderly,) = wait_until(lambda: emitters(collector, service=trace_id, state="ended"))
    assert (orderly["claimed"], orderly["stored"], orderly["missing"]) == (2, 2, 0)


def ship(spool, gate):
    """Deliver the events that the successor did not deliver at its exit."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "ship", "--endpoint", gate.url),
            *("--spool-dir", str(spool), "--timeout", "30"),
        ],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def test_invalid_heartbeat_is_400_with_the_reason(collector):
    beat = b'{"emitter_id": "e", "state": "odd", "sent_at": "2026-01-01T00:00:00Z", "recorded": 1}'
    answer = http("POST", f"{collector.url}/v1/heartbeats", beat)

    assert answer.status == 400
    assert "state: invalid enum value 'odd'; got 'odd'" in answer.json()["error"]["message"]
    assert http("POST", f"{collector.url}/v1/heartbeats", b"hello").status == 400


def test_filters_that_are_not_understood_are_refused(collector):
    answer = http("GET", f"{collector.url}/v1/emitters?state=asleep")

    assert answer.status == 400
    assert "asleep" in answer.json()["error"]["message"]
