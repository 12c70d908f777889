"""Tokens that a call writes to a provider's cache have their own column and price."""

import json
import os
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.support.collector import http
from tests.support.waiting import wait_until

USAGE = {
    "input_tokens": 1_000,
    "cache_read_input_tokens": 2_000,
    "cache_creation_input_tokens": 4_000,
    "output_tokens": 500,
}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "ok"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": USAGE,
}
PROGRAM = """
import sys
import anthropic
import tracereel
from tracereel.integrations.anthropic import wrap

tracereel.configure()


@tracereel.traced_pipeline("cache_writes", trace_id=sys.argv[1])
def ask():
    with anthropic.Anthropic(api_key="k", base_url=sys.argv[2]) as client:
        wrap(client).messages.create(
            model="claude-test", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )


ask()
"""


class Provider(BaseHTTPRequestHandler):
    """Provider that answers every request alike."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def provider():
    with HTTPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_cache_writes_have_their_own_column_and_price(collector, provider, tmp_path):
    trace_id = f"trc_{uuid.uuid4().hex}"
    environ = {
        **os.environ,
        "TRACEREEL_ENDPOINT": collector.url,
        "TRACEREEL_EVENT_LOGS": "off",
        "TRACEREEL_SPOOL_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, trace_id, provider],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # Dollars per million tokens: input 3, cache read 0.3, cache write 3.75, output 15.
    cost = (1_000 * 3 + 2_000 * 0.3 + 4_000 * 3.75 + 500 * 15) / 1e6

    def whole():
        answer = collector.replay(trace_id)
        found = answer.json() if answer.status == 200 else None
        # A span of the client itself may arrive before the events.
        is_closed = found and found["timeline"][-1]["event"] == "agent.pipeline.completed"
        return found if is_closed and found["summary"]["llm_cost_usd"] is not None else None

    replay = wait_until(whole, timeout=30)
    assert replay["summary"]["llm_cost_usd"] == pytest.approx(cost)
    calls = [each for each in replay["timeline"] if each["event"] == "agent.llm.called"]
    assert calls, [each["event"] for each in replay["timeline"]]
    (call,) = calls
    statement = (
        "SELECT PromptTokens, CacheReadTokens, CacheWriteTokens, CompletionTokens, CostUsd"
        " FROM model_calls WHERE TraceId = {trace:String}"
    )
    parameters = {"trace": call["details"]["otel_trace_id"]}
    body = json.dumps({"query": statement, "parameters": parameters}).encode()

    def settled():
        answer = http(
            "POST", f"{collector.url}/v1/sql", body, {"Content-Type": "application/json"}
        ).json()
        # The span of the client itself is a second row until the trace is settled.
        return answer["rows"] if len(answer["rows"]) == 1 else None

    rows = wait_until(settled, timeout=60)
    assert rows == [[7_000, 2_000, 4_000, 500, pytest.approx(cost)]]

    def listed():
        (run,) = http("GET", f"{collector.url}/v1/traces?pipeline=cache_writes").json()["traces"]
        return run["cost_usd"] == pytest.approx(cost)

    wait_until(listed, timeout=60)
