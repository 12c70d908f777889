"""What was asked and answered in runs that only spans describe: list, sessions, commands."""

import json
import os
import subprocess
import sys
import time
import uuid

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from playwright.sync_api import expect

from tests.support.browser import ended, event, started
from tests.support.collector import http
from tests.support.waiting import wait_until
from tracereel.client import Client

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture(scope="module")
def talked(collector):
    """Send two turns of a session as spans; return the session and the trace ids."""
    session, ids = f"ses-{uuid.uuid4().hex}", []
    for turn in (1, 2):
        request = ExportTraceServiceRequest()
        span = request.resource_spans.add().scope_spans.add().spans.add()
        span.trace_id, span.span_id, span.name = (
            uuid.uuid4().bytes,
            uuid.uuid4().bytes[:8],
            "chat m",
        )
        span.start_time_unix_nano = time.time_ns() - (9 - turn) * 10**9
        span.end_time_unix_nano = span.start_time_unix_nano + 10**9
        said = {
            "role": "user",
            "parts": [{"type": "text", "content": f"Why {session[4:12]} {turn}?"}],
        }
        answer = {
            "role": "assistant",
            "parts": [{"type": "text", "content": f"Because of <b>{turn}</b>."}],
        }
        for name, value in {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.conversation.id": session,
            "gen_ai.input.messages": json.dumps([said]),
            "gen_ai.output.messages": json.dumps([answer]),
        }.items():
            span.attributes.append(KeyValue(key=name, value=AnyValue(string_value=value)))
        body = request.SerializeToString()
        assert http("POST", f"{collector.url}/v1/traces", body, PROTOBUF).status == 200
        ids.append(span.trace_id.hex())
    client = Client(collector.url)
    wait_until(lambda: len(list(client.find(session=session))) == 2, timeout=60)
    return session, ids


def test_questions_and_answers_are_read_for_some_runs(collector, talked):
    session, ids = talked
    found = Client(collector.url).asked([*ids, "0" * 32])

    why = f"Why {session[4:12]}"
    assert {name: (each.asked, each.answered) for name, each in found.items()} == {
        ids[0]: (f"{why} 1?", "Because of <b>1</b>."),
        ids[1]: (f"{why} 2?", "Because of <b>2</b>."),
    }
    many = "&".join(f"trace_id={number}" for number in range(101))
    assert http("GET", f"{collector.url}/v1/asked?{many}").status == 400
    assert http("GET", f"{collector.url}/v1/asked").status == 400


def test_a_session_of_spans_has_them_as_texts(collector, talked):
    session, _ = talked
    turns = http("GET", f"{collector.url}/v1/sessions/{session}").json()["turns"]

    assert [each["answer"] for each in turns] == [f"Because of <b>{n}</b>." for n in (1, 2)]
    assert turns[1]["prompt"] == f"Why {session[4:12]} 2?"


def test_a_budgeted_read_has_the_messages(collector, talked):
    session, ids = talked
    document = http("GET", f"{collector.url}/v1/traces/{ids[1]}?budget_bytes=2000").json()

    (step,) = document["steps"]
    assert (step["input"], step["output"]) == (f"Why {session[4:12]} 2?", "Because of <b>2</b>.")


def test_a_budgeted_read_of_events_has_the_last_message_and_no_summary(collector, trace_id):
    said = [{"role": "user", "content": each} for each in ("first " * 2_000, 'And "now"?')]
    call = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}]
    model = event(
        *("agent.llm.called", 0.5),
        trace_id=trace_id,
        status="success",
        duration_ms=5,
        span_id="00f067aa0ba902b7",
        llm_model="m",
        input_messages=said,
        output_messages=[{"role": "assistant", "content": "I look.", "tool_calls": call}],
    )
    sent = [started(trace_id), model, ended(trace_id)]
    assert collector.post_events(sent).json()["accepted"] == 3
    document = http("GET", f"{collector.url}/v1/traces/{trace_id}?budget_bytes=3000").json()

    step = next(each for each in document["steps"] if each["kind"] == "llm")
    assert (step["input"], step["output"]) == ('And "now"?', 'I look.\nlook({"q":1})')
    part = f"{collector.url}/v1/traces/{trace_id}?step={step['id']}&budget_bytes=1500"
    answer = http("GET", part)
    assert len(answer.body) <= 1_500
    assert answer.json()["steps"][0]["output"] == step["output"]


def test_lists_show_the_answer_in_an_object_and_not_its_description(collector, trace_id):
    session = f"ses-{uuid.uuid4().hex}"
    sent = [
        started(trace_id, user_prompt="A slot?", session_id=session),
        ended(
            trace_id,
            session_id=session,
            output_summary="Booking(outcome='booked', slot='Tomorrow at ten.')",
            output={"outcome": "booked", "slot": "Tomorrow at <b>ten</b>."},
        ),
    ]
    assert collector.post_events(sent).json()["accepted"] == 2

    def read(path, name):
        return http("GET", f"{collector.url}{path}").json()[name]

    (run,) = wait_until(lambda: read(f"/v1/traces?session={session}", "traces"), timeout=60)
    assert (run["prompt"], run["answer"]) == ("A slot?", "Tomorrow at <b>ten</b>.")
    (turn,) = read(f"/v1/sessions/{session}", "turns")
    assert (turn["prompt"], turn["answer"]) == ("A slot?", "Tomorrow at <b>ten</b>.")
    listed = read("/v1/sessions?limit=500", "sessions")
    (row,) = (each for each in listed if each["session_id"] == session)
    assert (row["asked"], row["answered"]) == ("A slot?", "Tomorrow at <b>ten</b>.")


def test_lists_show_the_fields_of_an_object_without_a_text(collector, trace_id):
    output = {"outcome": "conflict", "slot": None, "free": [1, 2], "tried": 3}
    done = ended(trace_id, output_summary="Booking(outcome='conflict', …)", output=output)
    assert collector.post_events([started(trace_id), done]).json()["accepted"] == 2
    query = f"{collector.url}/v1/traces?pipeline=hand_made&limit=500"

    def row():
        found = http("GET", query).json()["traces"]
        return next((each for each in found if each["trace_id"] == trace_id), None)

    assert wait_until(row, timeout=60)["answer"] == "outcome: conflict, tried: 3"


@pytest.mark.parametrize("status", ["success", "failed"])
def test_lists_show_what_a_model_inside_was_asked_and_said(collector, trace_id, status):
    session = f"ses-{uuid.uuid4().hex}"

    def call(seconds_ago, given, said):
        return event(
            *("agent.llm.called", seconds_ago),
            trace_id=trace_id,
            span_id=uuid.uuid4().hex[:16],
            parent_span_id="00f067aa0ba902b1",
            status="success",
            duration_ms=5,
            input_messages=[{"role": "user", "content": given}],
            output_messages=[{"role": "assistant", "content": said}],
        )

    around = {"span_id": "00f067aa0ba902b1", "session_id": session}
    sent = [
        started(trace_id, 2, user_prompt=None, **around),
        call(1, "Which <i>day</i>?", "A moment."),
        call(0.5, "And then?", "On Monday."),
        ended(trace_id, status=status, output_summary="None", **around),
    ]
    assert collector.post_events(sent).json()["accepted"] == 4

    def read(path, name):
        return http("GET", f"{collector.url}{path}").json()[name]

    answer = "On Monday." if status == "success" else None
    (run,) = wait_until(lambda: read(f"/v1/traces?session={session}", "traces"), timeout=60)
    assert (run["prompt"], run["answer"]) == ("Which <i>day</i>?", answer)
    (turn,) = read(f"/v1/sessions/{session}", "turns")
    assert (turn["prompt"], turn["answer"]) == ("Which <i>day</i>?", answer)
    listed = read("/v1/sessions?limit=500", "sessions")
    (row,) = (each for each in listed if each["session_id"] == session)
    assert (row["asked"], row["answered"]) == ("Which <i>day</i>?", answer)


def test_lists_show_a_question_and_not_the_arguments_it_was_passed_in(collector, trace_id):
    agent = {"agent_name": "asker", "span_id": "00f067aa0ba902b1", "request_id": "r"}
    opened = event(
        *("agent.execution.started", 1),
        trace_id=trace_id,
        input_type="dict",
        input_size_bytes=20,
        input_summary="question: 'How far?', unit: 'km'",
        input={"question": "How far?", "unit": "km"},
        **agent,
    )
    done = event(
        *("agent.execution.completed", 0.5),
        trace_id=trace_id,
        execution_time_ms=5,
        execution_time_seconds=0.005,
        output_type="NoneType",
        output_size_bytes=4,
        output_summary="None",
        **agent,
    )
    assert collector.post_events([opened, done]).json()["accepted"] == 2

    def row():
        found = http("GET", f"{collector.url}/v1/traces?agent=asker&limit=500").json()["traces"]
        return next((each for each in found if each["trace_id"] == trace_id), None)

    run = wait_until(row, timeout=60)
    assert (run["prompt"], run["answer"]) == ("How far?", None)


def test_a_failed_agent_is_not_answered_by_a_model_inside_of_it(collector, trace_id):
    said = [{"role": "assistant", "content": "Almost."}]
    inside = {"status": "success", "duration_ms": 5, "parent_span_id": "00f067aa0ba902b1"}
    model = event(
        *("agent.llm.called", 0.5),
        trace_id=trace_id,
        span_id="00f067aa0ba902b7",
        input_messages=[{"role": "user", "content": "Why?"}],
        output_messages=said,
        **inside,
    )
    failed = ended(trace_id, status="failed", span_id="00f067aa0ba902b1")
    sent = [started(trace_id, span_id="00f067aa0ba902b1"), model, failed]
    assert collector.post_events(sent).json()["accepted"] == 3

    path = f"{collector.url}/v1/traces/{trace_id}/steps/00f067aa0ba902b1/content"
    content = wait_until(lambda: http("GET", path).status == 200 and http("GET", path).json())
    assert (content["asked"], content.get("answered")) == ("by hand", None)


def test_commands_show_them(collector, talked):
    session, ids = talked

    def tracereel(*words):
        command = [sys.executable, "-m", "tracereel", *words, "--endpoint", collector.url]
        done = subprocess.run(
            command,
            env={**os.environ, "COLUMNS": "300"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    listed = tracereel("traces", "--session", session)
    assert f"Why {session[4:12]} 2?" in listed
    assert "Because of <b>1</b>." in listed
    row = next(line for line in tracereel("sessions").splitlines() if session in line)
    assert f"Why {session[4:12]} 2?" in row
    assert "Because of <b>2</b>." in row
    shown = tracereel("trace", ids[1]).splitlines()
    assert f"asked     Why {session[4:12]} 2?" in shown
    assert "answered  Because of <b>2</b>." in shown


def test_the_lists_of_the_page_show_them(visit, talked):
    session, ids = talked
    page = visit.open(f"#/runs?session={session}")
    row = page.locator(f"tr[data-run='{ids[1]}'] .prompt")
    expect(row).to_have_text(f"Why {session[4:12]} 2? → Because of <b>2</b>.")
    page = visit.open("#/sessions")
    row = page.locator(f"tr[data-session='{session}']")
    expect(row).to_contain_text(f"Why {session[4:12]} 2? → Because of <b>2</b>.")
    row.locator("a").click()
    expect(page.locator(".said.answer").last).to_have_text("Because of <b>2</b>.")
