"""Runs read from a running collector: tree, contents and totals."""

import json
import uuid

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.collector import http
from tests.support.contract import EXAMPLES, example
from tests.support.waiting import wait_until
from tracereel.client import Client

SPAN = {name: uuid.uuid4().hex[:16] for name in ("pipeline", "agent", "llm", "http", "inner")}


def read(collector, path):
    answer = http("GET", collector.url + path)
    assert answer.status == 200, answer.body
    return answer.json()


def at(milliseconds):
    return f"2026-01-23T10:00:{milliseconds / 1000:09.6f}Z"


def own(event_type, milliseconds, **fields):
    """Return an event of a type with a unique id."""
    try:
        made = example(event_type)
    except StopIteration:
        made = {"event_type": event_type}
    return {**made, "event_id": uuid.uuid4().hex, "timestamp": at(milliseconds), **fields}


@pytest.fixture(scope="module")
def mixed(collector):
    """Send a run with a third-party span between agent and model, and a sub-run."""
    run = f"trc_{uuid.uuid4().hex}"
    otel = uuid.uuid4().hex
    both = {"trace_id": run, "otel_trace_id": otel, "request_id": "r"}
    agent = {"span_id": SPAN["agent"], "parent_span_id": SPAN["pipeline"], "agent_name": "parser"}
    events = [
        own("agent.pipeline.started", 0, span_id=SPAN["pipeline"], **both),
        own("agent.execution.started", 10, **agent, **both),
        own(
            *("agent.llm.called", 80),
            span_id=SPAN["llm"],
            parent_span_id=SPAN["http"],
            agent_name="parser",
            llm_model="qwen-2.5",
            llm_tokens_used=10,
            llm_cost_usd=0.5,
            status="success",
            duration_ms=50,
            **both,
        ),
        own("agent.decision.recorded", 85, span_id=SPAN["agent"], **both),
        own("agent.execution.completed", 90, **agent, **both),
        own("agent.pipeline.completed", 100, span_id=SPAN["pipeline"], **both),
        own(
            *("agent.execution.started", 95),
            trace_id=f"{run}-sub",
            parent_trace_id=run,
            agent_name="inner",
            span_id=SPAN["inner"],
        ),
    ]
    assert collector.post_events(events).json()["accepted"] == len(events)
    request = ExportTraceServiceRequest()
    made = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            name="POST /chat",
            trace_id=bytes.fromhex(otel),
            span_id=bytes.fromhex(SPAN["http"]),
            parent_span_id=bytes.fromhex(SPAN["agent"]),
            kind=3,
        )
    )
    began = 1_769_162_400_000_000_000
    made.start_time_unix_nano, made.end_time_unix_nano = began + 20_000_000, began + 85_000_000
    answer = http(
        *("POST", f"{collector.url}/v1/traces", request.SerializeToString()),
        {"Content-Type": "application/x-protobuf"},
    )
    assert answer.status == 200
    wait_until(lambda: spans_of(collector, otel) == 1, timeout=20)
    return run, otel


def spans_of(collector, otel):
    """Return how many third-party spans have arrived; they take longer than events."""
    answer = http("GET", f"{collector.url}/v1/traces/{otel}")
    return answer.json()["summary"]["total_spans"] if answer.status == 200 else 0


def outline(document):
    return [(step["depth"], step["kind"], step["name"]) for step in document["steps"]]


def test_events_spans_and_linked_runs_are_one_tree(collector, mixed):
    run, otel = mixed
    document = read(collector, f"/v1/traces/{run}")

    assert outline(document) == [
        (0, "pipeline", "appointment_creation"),
        (1, "agent", "parser"),
        (2, "span", "POST /chat"),
        (3, "llm", "qwen-2.5"),
        (1, "agent", "inner"),
    ]
    assert otel in document["otel_trace_ids"]
    assert document["summary"]["runs"] == [run, f"{run}-sub"]
    pipeline, agent, _, llm, inner = document["steps"]
    assert pipeline["cost_usd"] == llm["cost_usd"] == 0.5
    assert agent["decisions"][0]["type"] == "temporal_resolution"
    assert inner["status"] == "unknown", "nobody reports on it, and it is old"


def test_a_linked_run_alone_names_its_parent(collector, mixed):
    run, _ = mixed
    alone = read(collector, f"/v1/traces/{run}-sub")
    unlinked = read(collector, f"/v1/traces/{run}?linked=false")

    assert outline(alone) == [(0, "agent", "inner")]
    assert alone["parent_trace_id"] == run
    assert len(unlinked["steps"]) == 4


def test_the_id_of_the_opentelemetry_trace_leads_to_the_run(collector, mixed):
    run, otel = mixed
    own_spans = [
        own(
            *("agent.execution.completed", 5),
            trace_id=f"{run}-x",
            otel_trace_id=uuid.uuid4().hex,
            span_id=uuid.uuid4().hex[:16],
            span_name="invoke_agent x",
            span_start_unix_nano=1_769_162_400_000_000_000,
            span_end_unix_nano=1_769_162_400_005_000_000,
        )
    ]
    collector.post_events(own_spans)

    document = read(collector, f"/v1/traces/{own_spans[0]['otel_trace_id']}")

    assert [step["trace_id"] for step in document["steps"]] == [f"{run}-x"]
    by_trace, by_run = (read(collector, f"/v1/traces/{each}") for each in (otel, run))
    assert outline(by_trace) == outline(by_run)


def test_the_examples_of_the_contract_are_a_run(collector, trace_id):
    assert (
        collector.post_events([{**each, "trace_id": trace_id} for each in EXAMPLES]).status == 200
    )

    document = read(collector, f"/v1/traces/{trace_id}")

    assert outline(document)[0] == (0, "pipeline", "appointment_creation")
    assert document["summary"]["total_events"] == 8
    assert document["summary"]["first_error"]["type"] == "LLMTimeoutError"
    (chain,) = document["chains"]
    assert [link["what"] for link in chain["links"]] == ["attempt", "attempt", "fallback"]
    assert json.dumps(document)


def test_outline_agrees_with_the_tree(collector, mixed):
    run, _ = mixed
    tree = read(collector, f"/v1/traces/{run}")
    many = len(tree["steps"])
    whole = read(collector, f"/v1/traces/{run}?outline_above={many}")
    outlined = read(collector, f"/v1/traces/{run}?outline_above={many - 1}")

    assert whole == tree
    assert "steps" not in outlined
    assert outlined["summary"] == tree["summary"]
    for name, values in outlined["outline"].items():
        told = [step.get(name) for step in tree["steps"]]
        assert [value or None for value in values] == [value or None for value in told], name


@pytest.mark.parametrize("name", ["agent", "llm", "http", "inner"])
def test_a_step_alone_is_as_in_the_tree(collector, mixed, name):
    """Only the step's events are read for our spans; all are read for third-party spans and sub-runs."""
    run, _ = mixed
    tree = read(collector, f"/v1/traces/{run}")
    (known,) = [step for step in tree["steps"] if step["id"] == SPAN[name]]
    alone = read(collector, f"/v1/traces/{run}?step={SPAN[name]}&alone=true")

    of_the_run = {"depth", "parent_id", "offset_ms", "tokens", "cost_usd", "children"}
    of_the_run |= {"prompt_tokens", "completion_tokens", "missing_parent_id", "clock_shift_ms"}
    assert {k: v for k, v in alone["step"].items() if k not in of_the_run} == {
        k: v for k, v in known.items() if k not in of_the_run
    }
    assert len(alone["events"]) == known.get("event_count", 0)


def test_a_step_without_a_span_has_both_of_its_events_alone(collector, trace_id):
    both = {"trace_id": trace_id, "request_id": "r", "agent_name": "parser"}
    events = [
        own("agent.execution.started", 0, **both),
        own("agent.execution.completed", 10, **both),
    ]
    assert collector.post_events(events).status == 200
    (step,) = read(collector, f"/v1/traces/{trace_id}")["steps"]
    alone = read(collector, f"/v1/traces/{trace_id}?step={step['id']}&alone=true")

    assert (alone["step"]["status"], len(alone["events"])) == ("success", 2)


def test_unknown_run_is_404(collector):
    answer = http("GET", f"{collector.url}/v1/traces/trc-none")

    assert answer.status == 404
    assert answer.json()["error"]["code"] == "not_found"


def replay(collector, run, query=""):
    return read(collector, f"/v1/replay/{run}{query}")


def test_the_replay_merges_events_and_spans_in_causal_order(collector, mixed):
    run, _ = mixed
    document = replay(collector, run)

    assert list(document)[:3] == ["trace_id", "timeline", "summary"]
    assert [entry["event"] for entry in document["timeline"]] == [
        "agent.pipeline.started",
        "agent.execution.started",
        "otel.span",
        "agent.llm.called",
        "agent.decision.recorded",
        "agent.execution.completed",
        "agent.execution.started",
        "agent.pipeline.completed",
    ]
    assert all(list(each)[:3] == ["time", "event", "details"] for each in document["timeline"])
    by_event = {entry["event"]: entry["step"] for entry in document["timeline"]}
    assert by_event["agent.decision.recorded"]["decision"] == "temporal_resolution"
    assert by_event["agent.decision.recorded"]["reasoning"].startswith("'mañana'")
    assert by_event["agent.llm.called"]["cost_usd"] == 0.5
    assert by_event["otel.span"]["parent_id"] == SPAN["agent"]
    summary = document["summary"]
    assert summary["total_events"] == len(document["timeline"]) == 8
    assert summary["total_spans"] == 1
    assert {"critical_path", "wasted", "first_error", "completeness"} <= set(summary)


def test_pages_of_a_replay_are_the_whole_of_it(collector, mixed):
    run, _ = mixed
    whole = replay(collector, run)
    told, place, pages = [], "", 0
    while place is not None:
        page = replay(collector, run, f"?limit=3&after={place}")
        told += page["timeline"]
        place, pages = page["next"], pages + 1

    assert pages == 3
    assert told == whole["timeline"]
    assert http("GET", f"{collector.url}/v1/replay/{run}?after=x").status == 400
    assert http("GET", f"{collector.url}/v1/replay/{run}?limit=0").status == 400


def test_the_state_at_a_moment(collector, mixed):
    run, _ = mixed

    state = replay(collector, run, "?at=50")
    same = replay(collector, run, f"?at={at(50)}")
    end = replay(collector, run, "?at=100000")
    before = replay(collector, run, "?at=2020-01-01T00:00:00Z")

    assert state == same
    assert [step["kind"] for step in state["steps"]] == ["pipeline", "agent", "span", "llm"]
    assert {step["status"] for step in state["steps"]} == {"running"}
    assert (state["tokens"], state["events_so_far"]) == (None, 2)
    assert (end["tokens"], end["events_so_far"]) == (10, 7)
    assert end["decisions"][0]["type"] == "temporal_resolution"
    assert before["state"] == "not_started"
    assert http("GET", f"{collector.url}/v1/replay/{run}?at=soon").status == 400
    both = http("GET", f"{collector.url}/v1/replay/{run}?at=5&stream=1").json()["error"]["message"]
    assert both == "at: the state at a moment is not played; leave out `at` or `stream`"
    odd = http("GET", f"{collector.url}/v1/replay/{run}?stream=1", None, {"Last-Event-ID": "x"})
    assert odd.json()["error"]["message"].startswith("Last-Event-ID: 'x' is not a place in a")


def parse_stream(body):
    """Yield (id, event, data) of each Server-Sent Event."""
    found = []
    for block in body.decode().strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":")
        found.append((fields.get("id"), fields.get("event"), json.loads(fields["data"])))
    return found


def test_playback_resumes_after_a_disconnect(collector, mixed):
    run, _ = mixed
    url = f"{collector.url}/v1/replay/{run}?stream=1&speed=50"
    answer = http("GET", url)
    played = parse_stream(answer.body)

    assert answer.headers["content-type"].startswith("text/event-stream")
    *entries, (_, last, summary) = played
    assert [data for _, _, data in entries] == replay(collector, run)["timeline"]
    assert {name for _, name, _ in entries} == {"step"}
    assert last == "end"
    assert summary["total_events"] == 8
    rest = parse_stream(http("GET", url, headers={"Last-Event-ID": entries[2][0]}).body)
    assert rest == played[3:]
    assert http("GET", f"{collector.url}/v1/replay/none?stream=1").status == 404
    assert http("GET", url, headers={"Last-Event-ID": "x"}).status == 400


def identity(entry):
    """Return what identifies an entry of a timeline."""
    details = entry["details"]
    return entry["event"], details.get("event_id") or details["span_id"]


def test_pages_of_a_huge_run_hold_every_event_and_span_once(collector):
    """Above 2,000 events only the page is read; parts of a tape are not shown.

    Events are numbered half a millisecond after they happened.
    """
    otel = uuid.uuid4().hex
    run, began = f"trc_{otel}", 1_769_162_400_000_000_000
    events = [
        own(
            *("custom.tick", number),
            trace_id=run,
            otel_trace_id=otel,
            span_id="f" * 16,
            hlc=f"{began + number * 1_000_000 + 500_000:016x}",
        )
        for number in range(2_100)
    ]
    events[1_000:1_000] = [
        own(
            *("agent.tape.recorded", 1_000),
            trace_id=run,
            otel_trace_id=otel,
            span_id="f" * 16,
            tape_id="t",
            tape_version=1,
            part=part,
            records=[],
        )
        for part in range(20)
    ]
    assert collector.post_events(events).json()["accepted"] == len(events)
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(3):
        made = spans.add(name="s", trace_id=bytes.fromhex(otel), span_id=bytes([number + 1] * 8))
        made.start_time_unix_nano = began + 500_000_000 * number + 250_000
        made.end_time_unix_nano = made.start_time_unix_nano + 1
        for _ in range(2):
            made.events.add(name="retry_attempted", time_unix_nano=made.start_time_unix_nano)
    sent = {"Content-Type": "application/x-protobuf"}
    http("POST", f"{collector.url}/v1/traces", request.SerializeToString(), sent)
    wait_until(lambda: spans_of(collector, otel) == 3, timeout=20)
    told, place = [], ""
    while place is not None:
        # The second page begins between an event and the span that follows it.
        page = replay(collector, run, f"?limit={501 + 3 if not place else 700}&after={place}")
        told += page["timeline"]
        place = page["next"]
        assert len(page["timeline"]) in (504, 700) or place is None

    whole = replay(collector, run)["timeline"]
    assert list(map(identity, told)) == list(map(identity, whole))

    shown = [each["details"] for each in told if each["event"] != "otel.span_event"]
    names = [details.get("event_id") or details["span_id"] for details in shown]
    assert len(names) == len(set(names)) == 2_103
    moments = [entry["step"]["offset_ms"] for entry in told]
    assert moments == sorted(moments)
    assert page["summary"]["total_events"] == len(told) == 2_109
    assert (page["summary"]["span_events"], page["summary"]["retries"]) == (6, 6)
    assert page["summary"]["in_short"] is True


@pytest.mark.parametrize("by", ["run", "trace"])
def test_a_long_run_is_read_in_full_although_a_tape_stands_between_its_events(collector, by):
    """A page of nothing but parts of a tape would look like the end."""
    otel = uuid.uuid4().hex
    run = f"trc_{otel}"
    same = {"trace_id": run, "otel_trace_id": otel, "span_id": "f" * 16}
    tape = {"tape_id": "t", "tape_version": 1, "records": []}
    events = [own("custom.tick", number, **same) for number in range(2_500)]
    parts = [own("agent.tape.recorded", 900, **same, **tape, part=part) for part in range(1_500)]
    assert collector.post_events(events[:900] + parts).json()["accepted"] == 2_400
    assert collector.post_events(events[900:]).json()["accepted"] == 1_600

    read = list(Client(collector.url).steps(run if by == "run" else otel, page_size=500))

    assert [step.details["event_id"] for step in read] == [each["event_id"] for each in events]


def test_completeness_names_gaps_emitters_and_the_end(collector, trace_id):
    def numbered(number, event_type="agent.execution.completed", **fields):
        return own(
            *(event_type, number),
            trace_id=trace_id,
            emitter_id=f"emt_{trace_id}",
            emitter_seq=number,
            trace_seq=number,
            **fields,
        )

    def completeness():
        return read(collector, f"/v1/traces/{trace_id}/completeness")

    collector.post_events([numbered(1), numbered(2)])
    assert completeness()["verdict"] == "open"
    collector.post_events([numbered(5, "agent.pipeline.completed", trace_event_count=6)])
    document = completeness()
    (emitter,) = document["emitters"]

    assert document["verdict"] == "incomplete"
    assert (document["events"], document["missing"], document["duplicates"]) == (3, 3, 0)
    assert emitter["gaps"] == [[3, 4], [6, 6]]
    assert emitter["has_told_its_end"] is True
    assert document["in_queue"] == {"events": 0, "all_looked_through": True}
    collector.post_events([numbered(3), numbered(4), numbered(6)])
    assert completeness()["verdict"] == "complete"
    assert replay(collector, trace_id)["summary"]["completeness"]["verdict"] == "complete"


def test_a_run_in_little_room_has_handles_to_the_rest(collector, mixed):
    run, _ = mixed
    answer = http("GET", f"{collector.url}/v1/traces/{run}?budget_bytes=900")
    short = answer.json()

    assert len(answer.body) <= 900
    assert short["steps"][0]["kind"] == "pipeline"
    assert short["steps"][0]["hidden"] == short["omitted_steps"] > 0
    part = read(collector, f"/v1/traces/{run}?step={SPAN['agent']}")
    assert [(step["depth"], step["kind"]) for step in part["steps"]] == [
        (0, "agent"),
        (1, "span"),
        (2, "llm"),
    ]
    assert [each["event_type"].rsplit(".", 1)[1] for each in part["events"]] == [
        "started",
        "recorded",
        "completed",
    ]
    tokens = http("GET", f"{collector.url}/v1/traces/{run}?budget_tokens=400&budget_bytes=90000")
    assert len(tokens.body) <= 1_200
    assert http("GET", f"{collector.url}/v1/traces/{run}?step=none").status == 404
    assert http("GET", f"{collector.url}/v1/traces/{run}?budget_bytes=1").status == 400


def test_two_runs_are_compared(collector, trace_id):
    def book(name, chosen):
        fields = {"trace_id": f"{trace_id}-{name}", "agent_name": "router", "request_id": "r"}
        collector.post_events(
            [
                own("agent.execution.started", 0, **fields),
                own("agent.decision.recorded", 5, **fields, chosen=chosen),
                own("agent.execution.completed", 10, **fields),
            ]
        )

    book("one", "A")
    book("two", "B")
    document = read(collector, f"/v1/traces/{trace_id}-one/diff/{trace_id}-two")
    same = read(collector, f"/v1/traces/{trace_id}-one/diff/{trace_id}-one?everything=true")

    assert document["first_difference"]["what"] == "decision"
    assert document["first_difference"]["fields"]["decision"]["b"]["chosen"] == "B"
    assert document["counts"]["changed"] == 1
    assert same["same"] is True
    assert [step["change"] for step in same["steps"]] == ["same"]
    assert http("GET", f"{collector.url}/v1/traces/{trace_id}-one/diff/none").status == 404


@pytest.mark.parametrize("name", ["{run}", "{run}-sub", "unknown", "not%20an%20id", "a%2Fb", ""])
def test_a_replay_is_the_same_with_and_without_parameters(collector, mixed, name):
    """Without parameters the collector takes a faster path."""
    path = f"{collector.url}/v1/replay/{name.format(run=mixed[0])}"

    short, long = http("GET", path), http("GET", f"{path}?linked=true")

    assert (short.status, short.body) == (long.status, long.body)
    assert short.headers["content-type"] == long.headers["content-type"]


def test_replays_are_counted_under_their_route(collector, mixed):
    labels = {"route": "/v1/replay/{trace_id}", "code": "200"}
    before = collector.metric("tracereel_http_requests_total", **labels)

    read(collector, f"/v1/replay/{mixed[0]}")

    assert collector.metric("tracereel_http_requests_total", **labels) == before + 1
