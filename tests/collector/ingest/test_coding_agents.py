"""Spans that log records of coding agents describe."""

import json

from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry

from tests.clients import coding_agents
from tracereel_collector.ingest.check import EventCheck
from tracereel_collector.ingest.coding_agents import AGENTS, EVENTS, spans_of_coding_agents
from tracereel_collector.ingest.otlp import OtlpCheck
from tracereel_collector.ingest.otlp_schema import LOGS
from tracereel_collector.ingest.otlp_values import as_plain
from tracereel_collector.ingest.redaction import Redactor

START = 1_800_000_000_000_000_000
events = EventCheck(max_event_bytes=1 << 20)
door = OtlpCheck(why_no_event=lambda *_: None)


def logs(document):
    return ParseDict(document, ExportLogsServiceRequest())


def spans_of(document):
    """Return the spans as dictionaries, the first first."""
    made = spans_of_coding_agents(logs(document))
    found = [
        {"name": span.name, "span": span}
        | {each.key.removeprefix("gen_ai."): as_plain(each.value) for each in span.attributes}
        for resource in made.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    return sorted(found, key=lambda each: each["span"].end_time_unix_nano)


def test_a_prompt_of_claude_code_is_a_run_with_its_calls():
    prompt, call, tool, failed, answer = spans_of(coding_agents.claude_code(START))

    assert prompt["name"] == "invoke_agent claude-code"
    assert json.loads(prompt["input.messages"])[0]["parts"][0]["content"] == "fix the tests"
    assert call["request.model"] == "claude-sonnet-4-5"
    assert (call["usage.input_tokens"], call["usage.output_tokens"]) == (1070, 30)
    assert call["usage.cache_read.input_tokens"] == 1000
    assert call["usage.cache_write.input_tokens"] == 50
    assert call["usage.cost"] == 0.25
    assert call["span"].end_time_unix_nano - call["span"].start_time_unix_nano == 2_000_000_000
    assert (tool["tool.name"], tool["tool.call.id"]) == ("Bash", "toolu_1")
    assert json.loads(tool["tool.call.arguments"]) == {"command": "make test"}
    assert (failed["span"].status.message, failed["error.type"]) == ("Overloaded", "529")
    assert "They pass." in answer["output.messages"]
    assert {each["conversation.id"] for each in (prompt, call, tool)} == {"s-claude"}
    assert {each["agent.name"] for each in (prompt, call, tool)} == {"claude-code"}
    assert {each["user.id"] for each in (prompt, call, tool)} == {"u-1"}
    assert not prompt["span"].parent_span_id
    assert {each["span"].parent_span_id for each in (call, tool)} == {prompt["span"].span_id}


def test_prompts_of_a_session_are_runs_of_their_own():
    spans = spans_of(coding_agents.claude_code(START, prompts=("p-1", "p-2")))

    assert len({each["span"].trace_id for each in spans}) == 2
    assert len({each["span"].span_id for each in spans}) == len(spans) == 10


def test_codex_has_one_run_for_a_session_and_only_completed_calls():
    prompt, call, tool, failed = spans_of(coding_agents.codex(START))

    assert "input.messages" not in prompt
    assert (call["usage.input_tokens"], call["usage.output_tokens"]) == (100, 40)
    assert call["usage.reasoning.output_tokens"] == 16
    assert call["response.time_to_first_chunk"] == 0.3
    assert (tool["tool.name"], tool["span"].status.message) == ("shell", "no such file")
    assert (failed["error.type"], failed["span"].status.message) == ("429", "HTTP 429")
    assert len({each["span"].trace_id for each in (prompt, call, tool, failed)}) == 1


def test_tokens_of_gemini_cli_include_thoughts_and_tools():
    _, call, tool = spans_of(coding_agents.gemini_cli(START))

    assert (call["usage.input_tokens"], call["usage.output_tokens"]) == (203, 25)
    assert call["usage.cache_read.input_tokens"] == 150
    assert (tool["tool.name"], tool["tool.call.arguments"]) == ("read_file", '{"path": "a.py"}')
    assert tool["span"].status.code == 0


def test_records_within_a_trace_are_below_the_span_that_they_name():
    document = coding_agents.claude_code(START)
    for record in document["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
        record |= {"traceId": "q6urq6urq6urq6urq6urqw==", "spanId": "zc3Nzc3NzcA="}

    spans = [each["span"] for each in spans_of(document)]

    assert {span.trace_id.hex() for span in spans} == {"ab" * 16}
    assert {span.parent_span_id.hex() for span in spans} == {"cdcdcdcdcdcdcdc0"}


def test_redacted_prompts_are_no_content():
    prompt, *_ = spans_of(coding_agents.claude_code(START, text="<REDACTED>"))

    assert "input.messages" not in prompt


def test_records_without_session_or_time_stay_records():
    document = coding_agents.codex(START)
    for record in document["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
        record["attributes"] = [e for e in record["attributes"] if e["key"] != "conversation.id"]
    assert spans_of_coding_agents(logs(document)) is None

    document = coding_agents.codex(0)
    for record in document["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
        record["observedTimeUnixNano"] = "0"
    assert spans_of_coding_agents(logs(document)) is None


def test_the_same_request_makes_the_same_spans_and_keeps_its_records():
    data = logs(coding_agents.claude_code(START)).SerializeToString()

    first, again = (door.protobuf(LOGS, data, tenant="t") for _ in range(2))

    assert (first.data, first.records, first.span_count) == (data, 5, 5)
    assert first.spans == again.spans != b""


def test_spans_are_made_of_redacted_records():
    redacting = OtlpCheck(why_no_event=lambda *_: None, redactor=Redactor(CollectorRegistry()))
    text = "mail to jane.doe@example.com"
    data = logs(coding_agents.claude_code(START, text=text)).SerializeToString()

    checked = redacting.protobuf(LOGS, data, tenant="t")

    assert b"jane.doe" not in checked.data + checked.spans
    assert ExportTraceServiceRequest.FromString(checked.spans).resource_spans


values = st.one_of(
    st.text(max_size=20),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.sampled_from(["1e400", "nan", "-5", "9" * 400]),
)
names = st.sampled_from(
    [
        *("session.id", "conversation.id", "prompt.id", "prompt_id", "duration_ms", "success"),
        *("input_tokens", "output_tokens", "cache_read_tokens", "cost_usd", "cost_usd_micros"),
        *("error", "error.message", "model", "tool_name", "prompt", "response", "ttft_ms"),
        *("event.kind", "status_code", "http.response.status_code", "output", "agent.name"),
    ]
)


@given(st.sampled_from(sorted(EVENTS)), st.dictionaries(names, values), st.integers(0, 2**64 - 1))
def test_any_values_of_a_record_make_a_span_or_none(name, said, moment):
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=moment)
    record.attributes.add(key="event.name").value.string_value = name
    session = AGENTS[name.partition(".")[0]].session
    for key, value in ({session: "s"} | said).items():
        kind = {str: "string", bool: "bool", int: "int", float: "double"}[type(value)]
        setattr(record.attributes.add(key=key).value, f"{kind}_value", value)

    made = spans_of_coding_agents(request)

    if made is not None:
        (span,) = made.resource_spans[0].scope_spans[0].spans
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        assert made.SerializeToString()
