"""Getting-started pages: their programs run as printed and produce the promised results."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.collector import http
from tests.support.oracle_process import free_port
from tests.support.waiting import wait_until

PAGES = Path(__file__).parents[2] / "docs" / "start"


def snippets(page):
    return re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def environ(collector, tmp_path):
    return {
        **os.environ,
        "TRACEREEL_ENDPOINT": collector.url,
        "TRACEREEL_SPOOL_DIR": str(tmp_path / "spool"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
    }


def run(words, environ, folder):
    done = subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout, done.stderr


def tracereel(*words):
    return [sys.executable, "-m", "tracereel", *words]


def wait_for_run(collector, query):
    def found():
        traces = http("GET", f"{collector.url}/v1/traces?{query}").json()["traces"]
        return traces[0] if traces and traces[0]["status"] != "running" else None

    return wait_until(found, message=f"no run with {query}")


@pytest.mark.e2e
def test_langgraph_page_records_replays_and_makes_a_test(collector, environ, tmp_path):
    (program,) = snippets("langgraph.md")
    file = tmp_path / "trip.py"
    file.write_text(program)

    assert run([sys.executable, "trip.py"], environ, tmp_path)[:2] == (0, "a walk: sunny in Lima\n")
    trace_id = wait_for_run(collector, "pipeline=trip")["trace_id"]
    shown = run(tracereel("replay", trace_id), environ, tmp_path)[1]
    assert "used weather" in shown
    assert "decided activity · confidence 0.90" in shown
    assert run(tracereel("replay", trace_id, "--run"), environ, tmp_path)[0] == 0
    made = run(tracereel("test-from", trace_id, "--directory", "tests/replays"), environ, tmp_path)
    assert made[0] == 0, made
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert run([*pytest_command, "tests/replays"], environ, tmp_path)[0] == 0

    file.write_text(program.replace("a walk", "a long walk"))
    status, out, _ = run(tracereel("replay", trace_id, "--run"), environ, tmp_path)
    assert status == 1
    assert '"a walk: sunny in Lima" → "a long walk: sunny in Lima"' in out
    assert run([*pytest_command, "tests/replays"], environ, tmp_path)[0] == 1


@pytest.mark.e2e
def test_fastapi_page_records_one_run_per_request(collector, environ, tmp_path):
    (program,) = snippets("fastapi.md")
    (tmp_path / "support.py").write_text(program)
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "support:app", "--port", str(port)]
    service = subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE)
    try:
        url = f"http://127.0.0.1:{port}/ask?question=where"

        def answer():
            try:
                asked = urllib.request.Request(url, headers={"x-session-id": "chat-1"})
                with urllib.request.urlopen(asked, timeout=10) as response:
                    return response.headers["x-request-id"], json.load(response)
            except OSError:
                return None

        request_id, body = wait_until(answer, message="the service does not answer")
        assert body == {"answer": "Order 17 is shipped."}
        run_found = wait_for_run(collector, "service=support-api")
    finally:
        service.terminate()
        service.communicate(timeout=60)
    assert (run_found["pipeline_type"], run_found["session_id"]) == ("GET /ask", "chat-1")
    assert (run_found["agents"], run_found["prompt"]) == (["summary", "support"], "where")
    shown = run(tracereel("replay", run_found["trace_id"], "--json"), environ, tmp_path)[1]
    assert request_id in shown
    assert "find_order" in shown


@pytest.mark.e2e
def test_page_for_users_of_other_tools_stores_spans_and_events(collector, environ, tmp_path):
    otel, decorators = snippets("other-tools.md")

    assert run([sys.executable, "-c", otel], environ, tmp_path)[0] == 0
    assert wait_for_run(collector, "model=gpt-test")["tokens"] == 17
    assert run([sys.executable, "-c", decorators], environ, tmp_path)[0] == 0
    assert wait_for_run(collector, "agent=planner")["status"] == "success"
