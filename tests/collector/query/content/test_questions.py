"""Last question and answer of runs that only spans describe, for lists."""

import json
import time
import uuid

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.collector.query.content.recorded import insert, stored
from tests.collector.query.content.test_same_conversation import LOSSY, RECORDED
from tests.support import talk
from tracereel_collector.model import Kind
from tracereel_collector.query.content.questions import Questions, Said

AGENTS = ("adk", "logfire-agents", "openinference-agents", "pydantic-ai")
EXPECTED = Said(talk.TURNS[-1][1], talk.ANSWER[:300])


def said_of(store, tenant, traces):
    return Questions(store).of(tenant, traces)


def put(store, *spans):
    """Store one trace of spans, each a kind, attributes and maybe a parent; return its tenant and id."""
    tenant, trace = f"t {uuid.uuid4().hex}", uuid.uuid4().bytes
    request = ExportTraceServiceRequest()
    made = request.resource_spans.add().scope_spans.add().spans
    for number, (kind, attributes, *parent) in enumerate(spans, 1):
        span = made.add(trace_id=trace, span_id=number.to_bytes(8), name=kind)
        span.parent_span_id = parent[0].to_bytes(8) if parent else b""
        span.start_time_unix_nano = time.time_ns() + number
        span.end_time_unix_nano = span.start_time_unix_nano + 1000
        for key, value in {"openinference.span.kind": kind, **attributes}.items():
            span.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
    insert(store, Kind.SPANS, tenant, request.SerializeToString())
    return tenant, trace.hex()


@pytest.mark.parametrize(("recording", "span"), [*RECORDED, *LOSSY])
def test_question_and_answer_are_found_in_every_dialect(store, recording, span):
    tenant, spans = stored(store, recording)
    traces = [trace for name, trace, _ in spans if name == span]

    assert set(said_of(store, tenant, traces).values()) == {EXPECTED}


@pytest.mark.parametrize("recording", AGENTS)
def test_question_and_answer_of_agents_of_other_frameworks(store, recording):
    tenant, spans = stored(store, recording)

    (said,) = said_of(store, tenant, [trace for _, trace, _ in spans]).values()
    assert said == Said("What is the weather in Lima?", "It is sunny in Lima.")


def test_the_outermost_span_comes_before_agents_and_these_before_calls(store):
    call = {"input.value": "inner?", "output.value": "inner!"}
    outer = {"input.value": "outer?"}
    tenant, trace = put(
        store, ("CHAIN", outer), ("AGENT", {"output.value": "agent!"}, 1), ("LLM", call, 2)
    )

    assert said_of(store, tenant, [trace]) == {trace: Said("outer?", "agent!")}


def test_an_instrumented_web_server_around_the_calls_does_not_hide_them(store):
    first = {"input.value": "first?", "output.value": "first!"}
    last = {"input.value": "last?", "output.value": "last!"}
    tenant, trace = put(store, ("", {"http.route": "/chat"}), ("LLM", first, 1), ("LLM", last, 1))

    assert said_of(store, tenant, [trace]) == {trace: Said("first?", "last!")}


def test_of_a_long_conversation_only_the_end_is_read(store):
    long = [
        {"role": ("user", "assistant")[n % 2], "content": f"{n} " + "x" * 3_000} for n in range(200)
    ]
    given = json.dumps([*long, {"role": "user", "content": "And now?"}])
    attributes = {"gen_ai.input.messages": given, "gen_ai.output.messages": '"Now this."'}
    assert len(given) > 600_000
    tenant, trace = put(store, ("LLM", attributes))

    assert said_of(store, tenant, [trace]) == {trace: Said("And now?", "Now this.")}


def test_what_is_too_long_or_no_content_is_left_out(store):
    huge = {"input.value": "x" * 100_000, "output.value": "[" * 100_000}
    many = {f"llm.input_messages.{n}.message.content": "y" * 2_000 for n in range(400)}
    for attributes in (huge, many, {}):
        tenant, trace = put(store, ("LLM", attributes))

        assert said_of(store, tenant, [trace]) == {trace: Said(None, None)}
    assert said_of(store, tenant, ["0" * 32, "' OR 1=1"]) == {}
