"""Redaction at ingest: no secret of the sample corpus is stored."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from prometheus_client import CollectorRegistry

from tests.support.contract import example
from tests.support.secret_samples import CORPUS, leaks
from tracereel._redact import values
from tracereel_collector.ingest.check import EventCheck
from tracereel_collector.ingest.otlp import OtlpCheck
from tracereel_collector.ingest.otlp_schema import TRACES
from tracereel_collector.ingest.redaction import Redactor, redact_otlp

COMPLETED = example("agent.execution.completed")


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def redactor(registry):
    return Redactor(registry)


def test_no_secret_of_the_corpus_enters_with_an_event(redactor, registry):
    door = EventCheck(max_event_bytes=1 << 20, redactor=redactor)
    lines = [
        json.dumps(
            {
                **COMPLETED,
                "event_id": f"e{number}",
                "output_summary": f"it said {sample}"[:200],
                "extra": {"deep": [{"headers": sample}, {f"say {sample}": 1}]},
            }
        ).encode()
        for number, (_, sample) in enumerate(CORPUS)
    ]

    checked = door.check(lines, tenant="default")

    assert len(checked.lines) == len(lines) == len(CORPUS)
    assert checked.lines != lines
    assert leaks(b"\n".join(checked.lines).decode()) == []
    found = registry.get_sample_value("tracereel_redactions_total", {"rule": "api_key"})
    assert found >= 20


def test_values_under_the_name_of_a_secret_go_whatever_they_look_like(redactor):
    door = EventCheck(max_event_bytes=1 << 20, redactor=redactor)
    event = {**COMPLETED, "password": "plain", "config": {"client_secret": "word", "pin": 1}}

    (line,) = door.check([json.dumps(event).encode()], tenant="default").lines

    kept = json.loads(line)
    assert (kept["password"], kept["config"]) == (
        "[redacted:field]",
        {"client_secret": "[redacted:field]", "pin": 1},
    )
    assert kept["event_id"] == COMPLETED["event_id"]


def test_event_without_secrets_is_stored_byte_for_byte(redactor):
    door = EventCheck(max_event_bytes=1 << 20, redactor=redactor)
    line = json.dumps(COMPLETED).encode()

    checked = door.check([line], tenant="default")

    assert checked.lines == [line]


def test_redacted_content_is_last_with_its_new_length(redactor):
    door = EventCheck(max_event_bytes=1 << 20, redactor=redactor)
    said = "write to jane.doe@example.com, " + "please " * 1000
    line = values.encode({**COMPLETED, "output": {"text": said}})

    (kept,) = door.check([line], tenant="default").lines

    facts, _, content = kept.partition(b',"content_bytes":')
    length, _, fields = content.partition(b",")
    assert json.loads(facts + b"}") == COMPLETED
    assert json.loads(b"{" + fields)["output"]["text"] == said.replace(
        "jane.doe@example.com", "[redacted:email]"
    )
    assert int(length) == len(fields) + 1


def any_value(sample, depth):
    """Wrap the text in nested lists and key-value lists."""
    value = AnyValue(string_value=f"say {sample}")
    for level in range(depth):
        outer = AnyValue()
        if level % 2:
            outer.array_value.values.append(value)
        else:
            outer.kvlist_value.values.append(KeyValue(key=f"k{level}", value=value))
        value = outer
    return value


def fill(attributes, depth):
    for number, (_, sample) in enumerate(CORPUS):
        attributes.append(KeyValue(key=f"a{number}", value=any_value(sample, depth)))
        attributes.append(KeyValue(key=f"b{number}", value=AnyValue(bytes_value=sample.encode())))


def trace_request(depth=3):
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    fill(resource.resource.attributes, 0)
    scope = resource.scope_spans.add()
    fill(scope.scope.attributes, 1)
    for _, sample in CORPUS:
        span = scope.spans.add(name=f"GET {sample}", trace_id=b"t" * 16, span_id=b"s" * 8)
        span.status.message = f"failed: {sample}"
        span.events.add(name=sample)
    fill(span.attributes, depth)
    fill(span.events[0].attributes, depth)
    fill(span.links.add().attributes, depth)
    return request


def log_request():
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for _, sample in CORPUS:
        record = scope.log_records.add(severity_text=sample)
        record.body.CopyFrom(any_value(sample, 4))
    fill(record.attributes, 2)
    return request


def metric_request():
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    metric = scope.metrics.add(name="m", description=CORPUS[0][1])
    point = metric.gauge.data_points.add(as_double=1.5)
    fill(point.attributes, 2)
    fill(point.exemplars.add().filtered_attributes, 2)
    return request


@pytest.mark.parametrize("make", [trace_request, log_request, metric_request])
def test_no_secret_of_the_corpus_enters_over_otlp(make):
    request = make()
    assert leaks(str(request).encode().decode("unicode_escape", "replace")) or leaks(str(request))

    assert redact_otlp(request)

    assert leaks(request.SerializeToString().decode("utf-8", "replace")) == []
    again = type(request).FromString(request.SerializeToString())
    assert not redact_otlp(again)


def test_numbers_ids_and_owners_in_spans_keep_what_they_are_for():
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id = b"\xff" * 16, b"\x01" * 8
    for key, value in {
        "user.id": AnyValue(string_value="ana@example.org"),
        "session.id": AnyValue(string_value="s-1"),
        "db.password": AnyValue(int_value=1234),
        "gen_ai.usage.input_tokens": AnyValue(int_value=12),
        "flag": AnyValue(bool_value=False),
        "http.request.header.authorization": AnyValue(string_value="x"),
        "zero": AnyValue(int_value=0),
        "blob": AnyValue(bytes_value=b"\xff\x00"),
    }.items():
        span.attributes.append(KeyValue(key=key, value=value))

    assert redact_otlp(request)

    kept = {each.key: each.value for each in span.attributes}
    assert span.trace_id == b"\xff" * 16
    assert kept["user.id"].string_value.startswith("sha256:")
    assert kept["session.id"].string_value == "s-1"
    assert kept["db.password"].int_value == 0
    assert kept["gen_ai.usage.input_tokens"].int_value == 12
    assert kept["flag"].WhichOneof("value") == "bool_value"
    assert kept["http.request.header.authorization"].string_value == "[redacted:field]"
    assert kept["zero"].WhichOneof("value") == "int_value"
    assert kept["blob"].bytes_value == b"\xff\x00"


def test_a_trace_request_is_kept_clean_and_one_with_nothing_to_hide_as_it_came(redactor):
    dirty = trace_request().SerializeToString()
    clean = ExportTraceServiceRequest()
    clean.resource_spans.add().scope_spans.add().spans.add(
        name="GET /", trace_id=b"t" * 16, span_id=b"s" * 8
    )

    door = OtlpCheck(why_no_event=lambda *_: None, redactor=redactor)
    checked = door.protobuf(TRACES, dirty, tenant="default")
    assert checked.records == len(CORPUS)
    assert leaks(checked.data.decode("utf-8", "replace")) == []
    data = clean.SerializeToString()
    assert door.protobuf(TRACES, data, tenant="default").data is data


@given(st.text(max_size=60), st.text(max_size=30))
def test_redaction_of_any_text_leaves_a_message_that_can_be_read(text, key):
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(name=text.encode("utf-8", "replace").decode())
    )
    value = AnyValue(string_value=span.name)
    span.attributes.append(KeyValue(key=key.encode("utf-8", "replace").decode(), value=value))

    redact_otlp(request)

    ExportTraceServiceRequest.FromString(request.SerializeToString())


@pytest.mark.parametrize("name", ["tenant", "tenant.id", "tracereel.tenant"])
def test_resources_that_name_another_tenant_do_not_enter(name):
    request = ExportTraceServiceRequest()
    for tenant in ("other", "acme", "", None):
        resource = request.resource_spans.add()
        if tenant is not None:
            resource.resource.attributes.append(
                KeyValue(key=name, value=AnyValue(string_value=tenant))
            )
        scope = resource.scope_spans.add()
        ids = {"trace_id": b"t" * 16, "span_id": b"s" * 8}
        scope.spans.add(name=f"of {tenant}", attributes=[KeyValue(key="tenant")], **ids)
        scope.spans.add(name="second", **ids)

    door = OtlpCheck(why_no_event=lambda *_: None)
    checked = door.protobuf(TRACES, request.SerializeToString(), tenant="acme")

    kept = ExportTraceServiceRequest.FromString(checked.data)
    names = [each.scope_spans[0].spans[0].name for each in kept.resource_spans]
    assert names == ["of acme", "of ", "of None"]
    assert (checked.records, checked.refused) == (6, {"another tenant": 2})
    assert f"resource attribute {name}: 'other' is another tenant" in checked.message()
