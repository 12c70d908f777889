"""Settled traces: every reader counts a call once, however many spans describe it."""

import json
import time
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.clients import fields
from tests.collector.store.conftest import insert_body
from tests.collector.store.runs_to_find import NOW, START, at, span, spans_request
from tests.support.settling import settle_all, settling_worker
from tests.support.waiting import wait_until
from tracereel_collector.model import Kind, Spending
from tracereel_collector.query.agents import Agents
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.search import Search, SearchQuery
from tracereel_collector.query.trace import Traces, document_of
from tracereel_collector.query.window import parse_window
from tracereel_collector.store import settling
from tracereel_collector.store.deletion import delete_rows, runs_of
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.settling import UnsettledTrace, batches, settle, unsettled

TRACE = b"\xab" * 16
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m1",
    "gen_ai.usage.input_tokens": 5,
    "gen_ai.usage.output_tokens": 6,
}
SLOW_STORE = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True, scope="module")
def _nothing_newer(migrated):
    """Empty the sums: traces that arrived long before the newest one are not looked at."""
    migrated.command("TRUNCATE TABLE trace_summaries")


def listed(store, tenant):
    """Return the totals of the runs of a tenant, as lists show them."""
    found = Search(store, time.time_ns).answer(tenant, SearchQuery(limit=500))["traces"]
    return sorted(
        (run["model_calls"], run["tokens"], run["cost_usd"] or 0, run["errors"]) for run in found
    )


def in_sql(store, tenant):
    """Return calls and tokens of all runs, as the view for SQL has them."""
    statement = "SELECT count(), sum(TotalTokens) FROM model_calls WHERE TenantId = {tenant:String}"
    ((calls, tokens),) = store.rows(statement, tenant=tenant)
    return int(calls), 0 if tokens == "\\N" else int(tokens)


def agents_of(store, tenant):
    window = parse_window(at(-60), at(3600), now=NOW)
    found = json.loads(Agents(store).list_document(tenant, window, points=10, limit=100))["agents"]
    return {each["agent"]: (each["model_calls"], each["tokens"]) for each in found}


def test_two_spans_of_a_call_are_one_after_settling_and_settling_again_changes_nothing(
    migrated, spans, tenant
):
    spans(spans_request(span(1), span(2, parent=1, **CALL), span(3, parent=2, **CALL)))
    assert listed(migrated, tenant) == [(2, 22, 0, 0)]

    settle_all(migrated)
    assert listed(migrated, tenant) == [(1, 11, 0, 0)]
    assert in_sql(migrated, tenant) == (1, 11)
    assert settle_all(migrated) == 0

    spans(spans_request(span(4, parent=1, begin=5, **CALL)))
    settle_all(migrated)
    assert listed(migrated, tenant) == [(2, 22, 0, 0)]
    assert in_sql(migrated, tenant) == (2, 22)


def test_traces_are_settled_though_a_wrong_clock_has_dated_others_later(
    new_store, sequence, tenant
):
    migrate(new_store)
    now, month = time.time_ns(), 30 * 86_400 * 10**9
    later = spans_request(span(9, **CALL))
    insert_body(new_store, Kind.SPANS, later, 1, "other", sequence, received=now + month)
    request = spans_request(span(1, **CALL), span(2, parent=1, **CALL))
    insert_body(new_store, Kind.SPANS, request, 1, tenant, sequence, received=now)

    settle_all(new_store)

    assert listed(new_store, tenant) == [(1, 11, 0, 0)]


def test_an_idle_worker_settles_what_is_delivered_afterwards(migrated, spans, tenant):
    settle_all(migrated)
    worker = settling_worker(migrated)
    assert worker.look() == 0
    worker.start()
    try:
        spans(spans_request(span(1, **CALL), span(2, parent=1, **CALL)))
        worker.note_delivery()

        wait_until(lambda: listed(migrated, tenant) == [(1, 11, 0, 0)])
    finally:
        worker.stop(timeout=10)


def test_a_corrected_trace_is_corrected_again_after_a_double_insert(migrated, spans, tenant):
    spans(spans_request(span(1, **CALL), span(2, parent=1, **CALL)))
    (trace,) = [each for each in unsettled(migrated) if each.tenant == tenant]
    settle(migrated, [trace], patient=True)
    double = migrated.rows(
        "SELECT hour, day, started, ended, span_calls, span_tokens, settled FROM trace_summaries"
        " WHERE tenant = {tenant:String} AND settled != 0",
        tenant=tenant,
    )
    names = ("hour", "day", "started", "ended", "span_calls", "span_tokens", "settled")
    row = dict(zip(names, double[0], strict=True)) | {"tenant": tenant, "trace_id": trace.trace}
    if int(row["span_tokens"]) < 0:  # not merged with the row of the spans yet
        migrated.put("trace_summaries", json.dumps(row).encode(), fmt="JSONEachRow")
        assert listed(migrated, tenant) != [(1, 11, 0, 0)]

    settle_all(migrated)
    assert listed(migrated, tenant) == [(1, 11, 0, 0)]


def test_a_crash_between_the_two_inserts_is_made_good(migrated, spans, tenant, monkeypatch):
    spans(spans_request(span(1, **CALL), span(2, parent=1, **CALL)))
    traces = [each for each in unsettled(migrated) if each.tenant == tenant]
    stored = settling._insert

    def crashing(store, table, rows, **given):
        if table == "trace_summaries":
            raise KeyboardInterrupt
        stored(store, table, rows, **given)

    monkeypatch.setattr(settling, "_insert", crashing)
    with pytest.raises(KeyboardInterrupt):
        settle(migrated, traces, patient=True)
    monkeypatch.undo()

    settle_all(migrated)
    assert listed(migrated, tenant) == [(1, 11, 0, 0)]
    assert in_sql(migrated, tenant) == (1, 11)


def event_of_call(number, *, run="trc_1", **more):
    """Return the event of a model call of the SDK with a span."""
    began = int(START.timestamp() + number * 10) * 10**9
    return {
        "event_id": f"{run}-{number}",
        "event_type": "agent.llm.called",
        "trace_id": run,
        "event_version": "1.0.0",
        "request_id": "r",
        "timestamp": at(number * 10 + 3),
        "otel_trace_id": TRACE.hex(),
        "span_id": f"{number:016x}",
        "agent_name": "helper",
        "span_name": "chat m1",
        "span_start_unix_nano": began,
        "status": "success",
        "span_end_unix_nano": began + 3 * 10**9,
        "llm_model": "m1",
        "llm_prompt_tokens": 5,
        "llm_completion_tokens": 6,
        "llm_tokens_used": 11,
        "llm_cost_usd": 0.5,
        **more,
    }


@pytest.mark.parametrize("is_first", [True, False], ids=["events first", "spans first"])
def test_sdk_calls_that_an_instrumentation_also_records_count_once(
    migrated, told, spans, tenant, is_first
):
    """One inside of the SDK's call, one beside it with the same answer, and one of its own."""
    answer = {"gen_ai.response.id": "r2"}
    request = spans_request(
        span(11, parent=1, begin=11, **CALL),
        span(12, begin=90, **CALL, **answer),
        span(13, begin=70, **CALL),
        # The SDK's own span, from another exporter of the program.
        span(1, begin=10, took=3, **CALL),
    )
    if not is_first:
        spans(request)
        settle_all(migrated)
    told(event_of_call(1), event_of_call(2, response_id="r2"))
    if is_first:
        spans(request)
    settle_all(migrated)

    ((calls, tokens, cost, _),) = listed(migrated, tenant)
    assert (calls, tokens, cost) == (3, 33, 1.0)
    assert in_sql(migrated, tenant) == (3, 33)
    assert agents_of(migrated, tenant) == {"helper": (2, 22)}
    summary = document_of(Traces(RunReader(migrated)).analysis(tenant, "trc_1"))["summary"]
    assert (summary["llm_tokens_used"], summary["llm_cost_usd"]) == (33, 1.0)


def test_a_call_of_the_sdk_without_usage_has_that_of_the_span_inside_of_it(
    migrated, told, spans, tenant
):
    unknown = dict.fromkeys(("llm_prompt_tokens", "llm_completion_tokens", "llm_tokens_used"))
    told(event_of_call(1, **unknown, llm_cost_usd=None))
    spans(spans_request(span(11, parent=1, begin=11, **CALL)))
    settle_all(migrated)

    assert listed(migrated, tenant) == [(1, 11, 0, 0)]
    assert in_sql(migrated, tenant) == (1, 11)
    assert agents_of(migrated, tenant) == {"helper": (1, 11)}


def test_a_call_counts_for_the_agent_above_it(migrated, spans, tenant):
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
    spans(spans_request(span(1, **agent), span(2, parent=1), span(3, parent=2, **CALL)))
    settle_all(migrated)

    assert agents_of(migrated, tenant) == {"helper": (1, 11)}


def test_spending_has_the_calls_of_spans_of_any_agent_or_none(migrated, spans, tenant):
    cost = {**CALL, "gen_ai.usage.cost.amount": "0.5"}
    spans(spans_request(span(1, **cost), span(2, parent=1, **cost), span(3, begin=5, **cost)))
    settle_all(migrated)

    found = Agents(migrated, now=lambda: NOW / 10**9).spending()
    assert all(isinstance(each, Spending) for each in found)
    (mine,) = [each for each in found if each.tenant == tenant]
    assert mine.usd_per_hour_of_day > 0


def test_sums_settled_during_a_deletion_are_deleted_too(migrated, spans, tenant):
    spans(spans_request(span(1, **CALL), span(2, parent=1, **CALL)))
    (trace,) = [each for each in unsettled(migrated) if each.tenant == tenant]
    settle(migrated, [trace], patient=True)
    delete_rows(migrated, runs_of(migrated, tenant, [trace.trace]))
    late = {"tenant": tenant, "trace_id": trace.trace, "hour": at(0)[:19], "day": "2026-01-23"}
    late |= {"settled": 2, "span_calls": -1, "confidence": 2}
    migrated.put("trace_summaries", json.dumps(late).encode(), fmt="JSONEachRow")
    assert len(listed(migrated, tenant)) == 1

    settle_all(migrated)
    assert listed(migrated, tenant) == []


def test_each_member_of_a_group_settles_its_share(migrated, spans, tenant):
    for number in range(12):
        spans(spans_request(span(1, **CALL), trace=bytes([number + 1]) * 16))
    shares = [
        {each.trace for each in unsettled(migrated, member=n, members=3) if each.tenant == tenant}
        for n in range(3)
    ]

    assert sum(len(share) for share in shares) == len(set().union(*shares)) == 12
    settle_all(migrated)


def test_a_trace_that_is_too_long_keeps_its_sums_and_is_not_looked_at_again(
    migrated, spans, tenant, monkeypatch
):
    monkeypatch.setattr(settling, "MAX_SPANS", 1)
    spans(spans_request(span(1, **CALL), span(2, parent=1, **CALL)))
    settle_all(migrated)

    assert listed(migrated, tenant) == [(2, 22, 0, 0)]
    assert settle_all(migrated) == 0


def test_batches_hold_traces_of_one_tenant_up_to_a_size():
    traces = [UnsettledTrace(t, f"{n}", 20_000, 0, 0) for t in "ab" for n in range(5)]

    sizes = [(batch[0].tenant, len(batch)) for batch in batches(traces)]
    assert sizes == [("a", 2), ("a", 2), ("a", 1), ("b", 2), ("b", 2), ("b", 1)]


def one_by_one(client, *, without=""):
    """Return the spans of a recording as requests of one span each."""
    made = []
    for resource in fields.spans_of(client).resource_spans:
        for scope in resource.scope_spans:
            for each in scope.spans:
                if without and without in scope.scope.name:
                    continue
                request = ExportTraceServiceRequest()
                of = request.resource_spans.add(resource=resource.resource)
                of.scope_spans.add(scope=scope.scope, spans=[each])
                made.append(request)
    return made


def joined(requests):
    whole = ExportTraceServiceRequest()
    for request in requests:
        whole.MergeFrom(request)
    return whole.SerializeToString()


RECORDED = {}


def settled_totals(store, client):
    """Return the totals of a recording that came at once."""
    if (store.address, client) not in RECORDED:
        name = uuid.uuid4().hex
        fields.insert(store, fields.Kind.SPANS, name, fields.spans_of(client))
        settle_all(store)
        RECORDED[store.address, client] = listed(store, name), in_sql(store, name)
    return RECORDED[store.address, client]


@SLOW_STORE
@given(
    client=st.sampled_from(
        [
            *("both-openinference", "both-anthropic", "both-openai", "both-genai"),
            *("both-parallel", "logfire-anthropic", "logfire-openai"),
        ]
    ),
    shuffled=st.randoms(use_true_random=False),
    parts=st.integers(1, 3),
)
def test_splitting_reordering_repeating_and_delaying_spans_changes_no_total(
    migrated, client, shuffled, parts
):
    expected = settled_totals(migrated, client)
    tenant = uuid.uuid4().hex
    requests = one_by_one(client)
    requests += shuffled.sample(requests, k=len(requests) // 3)
    shuffled.shuffle(requests)
    for part in range(parts):
        request = ExportTraceServiceRequest.FromString(joined(requests[part::parts]))
        fields.insert(migrated, fields.Kind.SPANS, tenant, request, number=part + 1)
        if shuffled.random() < 0.5:
            settle_all(migrated)
    settle_all(migrated)

    assert (listed(migrated, tenant), in_sql(migrated, tenant)) == expected


@pytest.mark.parametrize(
    ("client", "without"),
    [
        ("both-openinference", "openinference.instrumentation.openai"),
        ("both-openai", "openinference"),
        ("both-openai", "opentelemetry.instrumentation.genai"),
        ("both-anthropic", "com.anthropic"),
        ("both-anthropic", "openinference"),
        ("both-parallel", "openinference"),
        ("both-parallel", "opentelemetry.instrumentation.genai"),
        ("logfire-anthropic", "com.anthropic"),
        # One of OpenLIT's failed calls failed in a request over HTTP.
        ("openlit", "instrumentation.httpx"),
    ],
)
def test_a_second_instrumentation_changes_no_total(migrated, client, without):
    tenant = uuid.uuid4().hex
    request = ExportTraceServiceRequest.FromString(joined(one_by_one(client, without=without)))
    fields.insert(migrated, fields.Kind.SPANS, tenant, request)
    settle_all(migrated)

    assert (listed(migrated, tenant), in_sql(migrated, tenant)) == settled_totals(migrated, client)


def test_page_and_list_agree_on_a_trace_with_late_spans(migrated, tenant):
    request = ExportTraceServiceRequest.FromString(joined(one_by_one("both-openai")[::-1]))
    fields.insert(migrated, fields.Kind.SPANS, tenant, request)
    settle_all(migrated)
    ((calls, tokens, _, errors),) = listed(migrated, tenant)
    (trace,) = fields.traces_of(request)

    summary = document_of(Traces(RunReader(migrated)).analysis(tenant, trace))["summary"]
    assert (summary["llm_tokens_used"], summary["errors"]) == (tokens, errors)
    assert calls == 4
