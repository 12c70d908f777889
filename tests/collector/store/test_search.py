"""Run search: filters, windows and pages, over events and spans."""

import itertools
import json
import time

import pytest

from tests.collector.store.conftest import insert_body
from tests.collector.store.runs_to_find import NOW, START, at, run, span, spans_request
from tests.support.contract import EXAMPLES
from tracereel._runtime.clock import otel_trace_id
from tracereel_collector.errors import BadRequestError
from tracereel_collector.model import Kind
from tracereel_collector.query.filters import TraceFilters
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.search import Search, SearchQuery
from tracereel_collector.query.trace import Traces
from tracereel_collector.query.window import parse_window
from tracereel_collector.store.clickhouse import StoreAddress


@pytest.fixture
def search(migrated, tenant):
    found = Search(migrated, lambda: NOW)

    def ask(*, tenant=tenant, start=None, end=None, **given):
        named = {name: given.pop(name) for name in list(given) if name in TraceFilters.__slots__}
        question = SearchQuery(
            filters=TraceFilters(**named), window=parse_window(start, end, now=NOW), **given
        )
        return found.answer(tenant, question)

    return ask


def ids(answer):
    return [each["trace_id"] for each in answer["traces"]]


def test_the_contracts_examples_are_found_as_runs(told, search):
    told(*EXAMPLES)

    answer = search()

    by_id = {each["trace_id"]: each for each in answer["traces"]}
    assert set(by_id) == {each["trace_id"] for each in EXAMPLES}
    booking = by_id["trc_main_abc123"]
    assert booking["status"] == "success"
    assert booking["name"] == booking["pipeline_type"] == "appointment_creation"
    assert booking["prompt"] == "cita mañana 10am con Dr. Pérez"
    assert (booking["user_id"], booking["retries"], booking["fallbacks"]) == ("user_12345", 1, 1)
    assert booking["lowest_confidence"] == 0.65
    assert booking["otel_trace_ids"] == [otel_trace_id("trc_main_abc123")]
    failed = by_id["trc_main_ghi789"]
    assert (failed["status"], failed["errors"]) == ("failed", 1)
    assert failed["error_types"] == ["LLMTimeoutError"]


A = {
    "agent": "reader",
    "pipeline": "booking",
    "status": "failed",
    "prompt": "Cita mañana con la Dra. Pérez",
    "output": "reserva RX-42 hecha",
    "session_id": "s1",
    "user_id": "ana",
    "service": "clinic",
    "cost": 0.5,
    "took": 9,
    "confidence": 0.2,
    "llm_model": "gpt-4o",
    "color": "green",
}
B = {"agent": "writer", "pipeline": "billing", "prompt": "nada", "begin": 100, "color": "red"}
TWO_RUNS: dict[StoreAddress, str] = {}
"""Tenant of the two runs in each store."""


@pytest.fixture
def two_runs(told, place, tenant):
    """Return the tenant of two runs that differ in every field; stored once in each store."""
    if place not in TWO_RUNS:
        told(*run("a", **A), *run("b", **B))
        TWO_RUNS[place] = tenant
    return TWO_RUNS[place]


@pytest.mark.parametrize(
    "asked",
    [
        {"tags": {"agent": ("reader", "nobody")}},
        {"tags": {"pipeline": ("booking",)}},
        {"tags": {"session": ("s1",), "user": ("ana",)}},
        {"tags": {"service": ("clinic",)}},
        {"tags": {"model": ("gpt-4o",)}},
        {"tags": {"error": ("Timeout",)}},
        {"tags": {"category": ("transient",)}},
        {"statuses": ("failed",)},
        {"least": {"duration_ms": 5000}},
        {"least": {"cost_usd": 0.4}},
        {"most": {"confidence": 0.5}},
        {"least": {"errors": 1}},
        {"attributes": (("color", "green"),)},
        {"text": "PÉREZ cita"},
        {"text": "rx 42 hecha mañana"},
        {"text": '"mañana con la"'},
        {"start": at(-10), "end": at(50)},
        {"tags": {"agent": ("reader",)}, "statuses": ("failed",), "text": "cita"},
    ],
    ids=str,
)
def test_a_filter_finds_the_run_it_describes_and_no_other(two_runs, search, asked):
    assert ids(search(tenant=two_runs, **asked)) == ["a"]


@pytest.mark.parametrize(
    "asked",
    [
        {"tags": {"agent": ("reader",), "pipeline": ("billing",)}},
        {"text": '"con mañana"'},
        {"text": "cita billing"},
        {"attributes": (("color", "blue"),)},
        {"tags": {"agent": ("'; DROP TABLE agent_events --", "\\", "%", "a\nb\t\0")}},
        {"text": "') OR 1=1 --"},
        {"attributes": (("') OR ('1'='1", "x"), ("{tenant:String}", "y"))},
    ],
    ids=str,
)
def test_filters_without_a_match_find_nothing(two_runs, search, asked):
    assert ids(search(tenant=two_runs, **asked)) == []
    assert len(ids(search(tenant=two_runs))) == 2


@pytest.mark.parametrize("status", ["bogus", "Failed", "' OR ''='", ""])
def test_a_status_that_no_run_has_is_refused_with_those_that_there_are(two_runs, search, status):
    with pytest.raises(BadRequestError, match="expected one of success, partial_success, failed"):
        search(tenant=two_runs, statuses=("failed", status))


def test_custom_status_can_be_searched(told, search):
    *begun, ended = run("own-status")
    told(*begun, {**ended, "status": "half_done"})

    assert ids(search(statuses=("half_done",))) == ["own-status"]
    assert ids(search(statuses=("half_done",), text="nowhere")) == []
    with pytest.raises(BadRequestError, match="'half_done'"):
        search(statuses=("half_done",), start=at(10**6))


SORTED_BY = {
    "started_at": "started_at",
    "duration_ms": "duration_ms",
    "cost_usd": "cost_usd",
    "confidence": "lowest_confidence",
    "errors": "errors",
}


def test_pages_hold_every_run_once_and_in_order(told, search):
    names = [f"run-{number}" for number in range(11)]
    events = []
    for number, name in enumerate(names):
        values = {"took": 1 + number % 3, "cost": number % 4 / 10, "confidence": number % 5 / 10}
        status = "failed" if number % 2 else "success"
        events += run(name, begin=number % 6 * 3000, status=status, **values)
    told(*events[:20])
    told(*events[20:])

    for (sort, field), order, limit in itertools.product(
        SORTED_BY.items(), ("asc", "desc"), (4, 11)
    ):
        found, cursor = [], None
        for _ in itertools.count():
            page = search(start=at(-10), sort=sort, order=order, limit=limit, cursor=cursor)
            found += page["traces"]
            cursor = page["next"]
            if cursor is None:
                break
        assert sorted(each["trace_id"] for each in found) == sorted(names)
        values = [each[field] or 0 for each in found]
        assert values == sorted(values, reverse=order == "desc")


@pytest.mark.parametrize("sort", [*SORTED_BY, "tokens", "events"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_long_window_is_sorted_from_its_beginning_to_its_end(told, search, sort, order):
    """Also without an end: a run with another sort key may have begun at any time."""
    days = {"first": -6.9, "middle": -3, "last": 0}
    for name, begin in days.items():
        told(*run(name, begin=int(begin * 86_400)))

    for window in ({"start": at(-7 * 86_400)}, {"start": at(-7 * 86_400), "end": at(3600)}):
        assert sorted(ids(search(sort=sort, order=order, **window))) == sorted(days)


def test_runs_that_come_in_between_do_not_shift_the_pages(told, search):
    told(*run("1"), *run("2", begin=10), *run("3", begin=20))
    first = search(limit=2)
    told(*run("4", begin=30))

    assert ids(first) == ["3", "2"]
    assert ids(search(limit=2, cursor=first["next"])) == ["1"]


def test_without_a_window_the_newest_are_found_however_old_they_are(told, search):
    month = 30 * 86400
    told(*run("old", begin=-month), *run("older", begin=-2 * month), *run("new"))

    assert ids(search(limit=1)) == ["new"]
    assert ids(search(limit=2)) == ["new", "old"]
    assert ids(search()) == ["new", "old", "older"]


@pytest.mark.parametrize("tags", [{}, {"agent": ("rare",)}])
def test_in_a_window_the_newest_come_first_and_the_others_follow(told, search, tags):
    """The end of the window is searched before the whole window."""
    hours = [0, -1, -3, -5, -30, -200]
    events = [run(f"{-each}h", begin=each * 3600, agent="rare") for each in hours]
    told(*itertools.chain(*events))

    for limit in (1, 2, 6):
        assert (
            ids(search(start=at(-29 * 3600), limit=limit, tags=tags))
            == (["0h", "1h", "3h", "5h"][:limit])
        )
    first = search(start=at(-29 * 3600), limit=2, tags=tags)
    rest = search(start=at(-29 * 3600), limit=2, tags=tags, cursor=first["next"])
    assert ids(rest) == ["3h", "5h"]


def test_a_run_that_began_before_the_window_is_not_in_it(told, search):
    told(*run("long", begin=-3000, took=7000), *run("short", begin=100))

    assert ids(search(start=at(0))) == ["short"]
    assert ids(search(start=at(0), sort="duration_ms")) == ["short"]


def test_invalid_or_foreign_cursor_is_refused(two_runs, search):
    other = search(tenant=two_runs, limit=1, sort="cost_usd", start=at(-1))["next"]

    for wrong in (other, "x", "e30", "IiI", "WyJhIiwxLCJiIl0", "ÿ"):
        with pytest.raises(BadRequestError, match="cursor"):
            search(tenant=two_runs, limit=1, cursor=wrong)


def test_a_run_without_an_end_is_running_until_its_process_is_gone(told, search, beat):
    told(*run("open", emitter_id="emt_1", emitter_seq=1)[:2])
    assert search()["traces"][0]["status"] == "running"

    beat("emt_1", "alive")
    assert [each["status"] for each in search(statuses=("running",))["traces"]] == ["running"]
    assert ids(search(statuses=("crashed",))) == []

    beat("emt_1", "ended")
    assert ids(search(statuses=("running",))) == []
    assert [each["status"] for each in search(statuses=("crashed",))["traces"]] == ["crashed"]


def test_early_end_heartbeat_does_not_mark_the_run_as_crashed(told, search, beat):
    begin, *rest = run("late", emitter_id="emt_2")
    numbered = [{**event, "emitter_seq": number} for number, event in enumerate(rest, 2)]
    told({**begin, "emitter_seq": 1})
    beat("emt_2", "ended", recorded=1 + len(rest))
    assert search()["traces"][0]["status"] == "running"

    told(*numbered)
    assert search()["traces"][0]["status"] == "success"


def test_events_stored_during_a_search_do_not_mark_the_run_as_crashed(told, beat, migrated, tenant):
    begin, *rest = run("late", emitter_id="emt_3")
    numbered = [{**event, "emitter_seq": number} for number, event in enumerate(rest, 2)]
    told({**begin, "emitter_seq": 1})
    beat("emt_3", "ended", recorded=1 + len(rest))

    def clock_between_the_queries():
        told(*numbered)
        return time.time_ns()

    searching = Search(migrated, lambda: NOW, trusted_unix_nano=clock_between_the_queries)
    (found,) = searching.answer(tenant, SearchQuery())["traces"]

    assert found["status"] == "success"


def test_an_agent_that_ended_inside_of_an_open_pipeline_does_not_end_the_run(told, search):
    told(*run("open")[:3])

    assert search()["traces"][0]["status"] == "running"


@pytest.mark.parametrize("ahead", [0, 10**9], ids=["right clock", "clock of 2057"])
def test_a_trace_without_its_root_is_complete_after_a_quiet_time(spans, migrated, tenant, ahead):
    spans(
        spans_request(
            span(2, parent=1, name="first", begin=ahead, took=5),
            span(3, parent=2, name="second", begin=ahead + 1, took=2, error="boom"),
        )
    )
    (found,) = Search(migrated, time.time_ns).answer(tenant, SearchQuery())["traces"]
    shown = json.loads(Traces(RunReader(migrated)).document(tenant, found["trace_id"]))

    assert (found["name"], found["status"], found["duration_ms"]) == ("first", "success", 5000)
    assert (shown["name"], shown["state"]) == ("first", "success")
    assert shown["summary"]["duration_ms"] == 5000
    assert (found["errors"], shown["summary"]["errors"]) == (1, 1)


def test_a_trace_without_its_root_runs_while_its_spans_come(migrated, sequence, tenant):
    now = time.time_ns()
    late = int(now / 10**9 - START.timestamp()) - 60
    request = spans_request(span(2, parent=1, begin=late))
    insert_body(migrated, Kind.SPANS, request, 1, tenant, sequence, received=now)
    (found,) = Search(migrated, time.time_ns).answer(tenant, SearchQuery())["traces"]

    assert found["status"] == "running"
    shown = json.loads(Traces(RunReader(migrated)).document(tenant, found["trace_id"]))
    assert shown["state"] == "running"


def test_spans_without_events_are_runs(spans, search):
    spans(
        spans_request(
            span(1, name="POST /chat"),
            span(2, parent=1, error="boom", **{"gen_ai.agent.name": "helper"})
            | {"gen_ai.operation.name": "invoke_agent", "session.id": "s9", "user.id": "eva"},
            span(3, parent=2, **{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"})
            | {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3}
            | {"gen_ai.prompt.0.content": "háblame de Sevilla"},
        )
    )

    (found,) = search()["traces"]
    assert found["trace_id"] == "ab" * 16
    assert (found["name"], found["status"]) == ("POST /chat", "success")
    assert (found["spans"], found["events"], found["errors"]) == (3, 3, 1)
    assert (found["tokens"], found["model_calls"], found["agents"]) == (10, 1, ["helper"])
    for asked in (
        {"text": "sevilla"},
        {"text": "boom"},
        {"tags": {"agent": ("helper",), "model": ("m1",), "session": ("s9",)}},
        {"attributes": (("gen_ai.request.model", "m1"),)},
    ):
        assert ids(search(**asked)) == ["ab" * 16]


def test_a_run_stays_its_own_although_a_later_run_is_in_its_trace(told, spans, search):
    """A child run in the same OpenTelemetry trace must not take the rows of its parent."""
    parent, child = "ab" * 16, "trc_child"
    told(
        *run(parent, begin=1, pipeline="outer", otel_trace_id=parent, span_id="1" * 16),
        *run(child, begin=0, pipeline="inner", otel_trace_id=parent, span_id="2" * 16),
        *run("trc_other", otel_trace_id="cd" * 16, span_id="3" * 16),
    )
    spans(spans_request(span(7, begin=4_000), trace=b"\xab" * 16))
    spans(spans_request(span(8), trace=b"\xcd" * 16))

    found = {each["trace_id"]: each for each in search()["traces"]}

    assert {name: (each["name"], each["spans"]) for name, each in found.items()} == {
        parent: ("outer", 1),
        child: ("inner", 0),
        "trc_other": ("booking", 1),
    }


def test_spans_in_the_opentelemetry_trace_of_a_run_belong_to_it(told, spans, search):
    ids_of_span = {"otel_trace_id": "ab" * 16, "span_id": "cd" * 8}
    told(*run("trc_own", **ids_of_span))
    spans(spans_request(span(1, **{"gen_ai.request.model": "m1"}), span(2)))

    (found,) = search()["traces"]
    assert (found["trace_id"], found["otel_trace_ids"]) == ("trc_own", ["ab" * 16])
    assert (found["events"], found["spans"], found["models"]) == (6, 2, ["m1"])
    assert ids(search(tags={"model": ("m1",)})) == ["trc_own"]


def test_facets_and_histogram_count_what_was_found(told, search):
    events = run("elsewhere", begin=-7200)
    for number in range(6):
        status = "failed" if number == 4 else "success"
        events += run(f"r{number}", begin=number * 600, agent=f"a{number % 2}", status=status)
    told(*events)

    answer = search(
        start=at(0), end=at(3600), facets=("status", "agent", "error"), buckets=6, limit=0
    )

    assert answer["traces"] == []
    assert answer["facets"] == {
        "status": [{"value": "success", "runs": 5}, {"value": "failed", "runs": 1}],
        "agent": [{"value": "a0", "runs": 3}, {"value": "a1", "runs": 3}],
        "error": [{"value": "Timeout", "runs": 1}],
    }
    histogram = answer["histogram"]
    assert (histogram["step_seconds"], histogram["total"]) == (600, 6)
    assert [each["runs"] for each in histogram["buckets"]] == [1] * 6
    assert [each["failed"] for each in histogram["buckets"]] == [0, 0, 0, 0, 1, 0]
    only = search(start=at(0), end=at(3600), buckets=6, limit=0, tags={"agent": ("a1",)})
    assert [each["runs"] for each in only["histogram"]["buckets"]] == [0, 1, 0, 1, 0, 1]


def test_search_lists_executions_in_order_with_their_status(told, search):
    first = run("trc_1", agent="zeta", span_id="1" * 16)[:3]
    tried = run("trc_1", begin=3, agent="alpha", status="failed", span_id="2" * 16)[1:3]
    again = run("trc_1", begin=6, agent="alpha", span_id="3" * 16)[1:3]
    open_ = run("trc_1", begin=9, agent="beta", span_id="4" * 16)[1:2]
    events = [*first, *tried, *again, *open_, *run("trc_2", agent="gamma")]
    told(*({**each, "event_id": f"e{number}"} for number, each in enumerate(events)))

    found = {each["trace_id"]: each["executions"] for each in search(executions=9)["traces"]}

    assert [(each["agent"], each["status"]) for each in found["trc_1"]] == [
        ("zeta", "success"),
        ("alpha", "failed"),
        ("alpha", "success"),
        ("beta", "running"),
    ]
    assert found["trc_2"] == [{"agent": "gamma", "status": "success"}]
    few = {each["trace_id"]: each["executions"] for each in search(executions=2)["traces"]}
    assert few["trc_1"] == found["trc_1"][:2]
    assert all("executions" not in each for each in search()["traces"])


def test_search_omits_executions_of_plain_spans_and_other_tenants(told, spans, search):
    told(*run("trc_1"))
    spans(spans_request(span(1, name="chat")))

    (alone,) = [each for each in search(executions=5)["traces"] if each["trace_id"] != "trc_1"]

    assert alone["executions"] == []
    assert search(executions=5, tenant="another")["traces"] == []


def test_another_tenants_runs_are_neither_found_nor_counted(told, search):
    told(*run("mine", session_id="s"))
    told(*run("theirs", session_id="s"), *run("mine", begin=50, prompt="other"), tenant="bravo")

    (found,) = search()["traces"]
    assert (found["trace_id"], found["events"], found["prompt"]) == ("mine", 4, "hello")
    counted = search(start=at(-10), facets=("status", "session"), buckets=3)
    assert counted["facets"]["session"] == [{"value": "s", "runs": 1}]
    assert counted["histogram"]["total"] == 1
    assert ids(search(text="other")) == []
    assert ids(search(tenant="charlie")) == []


def test_duplicate_event_does_not_change_runs_or_status(told, search):
    told(*run("twice"))
    told(*run("twice")[2:])

    (found,) = search()["traces"]
    assert (found["status"], found["duration_ms"]) == ("success", 2000)


def test_row_of_a_run_has_the_last_answer(told, search):
    told(*run("answered", output="the doctor is free at ten"))
    told(*run("early", agent="first", output="looking"), *run("early", begin=5, output="found"))

    answers = {each["trace_id"]: each["answer"] for each in search()["traces"]}

    assert answers == {"answered": "the doctor is free at ten", "early": "found"}


def test_a_failed_run_is_not_answered_by_a_step_inside_of_it(told, search):
    inner = run("failed", output="4")[1:3]
    outer = run("failed", took=5, status="failed", prompt="how much?")
    told(outer[0], *inner, outer[-1])

    (found,) = search()["traces"]

    assert (found["status"], found["prompt"], found["answer"]) == ("failed", "how much?", None)
