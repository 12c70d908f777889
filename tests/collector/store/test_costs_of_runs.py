"""The cost of a run is the same in lists, in the run, in its replay and in pages."""

import json

import pytest

from tests.collector.store.runs_to_find import NOW, at, run, span, spans_request
from tests.collector.store.test_prices import CALL as UNPRICED
from tests.support.settling import settle_all
from tracereel_collector.query import costs as pricing
from tracereel_collector.query import replay as replaying
from tracereel_collector.query.agents import DAY_SECONDS, Agents
from tracereel_collector.query.content.questions import Questions
from tracereel_collector.query.filters import TraceFilters
from tracereel_collector.query.replay import ReplayQuery
from tracereel_collector.query.run.positions import Cursor
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.search import Search, SearchQuery
from tracereel_collector.query.sessions import Sessions
from tracereel_collector.query.trace import Traces
from tracereel_collector.query.window import Window, parse_window
from tracereel_collector.store.deletion import delete_rows, runs_of
from tracereel_collector.store.prices import COLUMNS, load_prices, parse

PRICES = f"""{",".join(COLUMNS)}
openai -,house-model,2020-01-01,10,20,1,12,us
openai -,house-model,2026-01-24,100,200,,,us
anthropic,claude-*,2020-01-01,3,15,0.3,3.75,us
"""
DAY = 86_400


@pytest.fixture(scope="module")
def priced(migrated):
    load_prices(migrated, parse(PRICES, name="own"))
    return migrated


@pytest.fixture
def costs(priced, tenant):
    """Return the cost of every run, checked to be equal in all queries."""

    def ask(monkeypatch):
        reader = RunReader(priced)
        traces = Traces(reader, lambda: NOW)
        search = Search(priced, lambda: NOW)
        replay = ReplayQuery(reader, traces, search)
        found = search.answer(tenant, SearchQuery())["traces"]
        listed = {each["trace_id"]: each["cost_usd"] for each in found}
        told_by_events = {each["trace_id"] for each in found if each["events"] > each["spans"]}
        for trace_id, cost in listed.items():
            shown = json.loads(traces.document(tenant, trace_id))["summary"]["llm_cost_usd"]
            told = json.loads(replay.document(tenant, trace_id))["summary"]["llm_cost_usd"]
            with monkeypatch.context() as patched:
                patched.setattr(replaying, "WHOLE_EVENTS", 0)
                page = replay.page(tenant, trace_id, after=Cursor(), limit=1)
            assert page.summary.get("in_short", False) is (trace_id in told_by_events)
            assert shown == told == pytest.approx(cost, abs=2e-9), trace_id
            assert page.summary["llm_cost_usd"] == pytest.approx(cost, abs=2e-9), trace_id
        return {name: cost and round(cost, 6) for name, cost in listed.items()}

    return ask


def calls(trace_id, *usages, begin=0, **common):
    """Return a run with model calls."""
    events = run(trace_id, begin=begin, cost=None, **common)
    closing = {**events[0], "event_type": "agent.llm.called", "span_name": "chat house-model"}
    made = [
        {**closing, "operation": "chat", "llm_provider": "openai", "llm_model": "house-model"}
        | {"event_id": f"{trace_id}-call-{number}", "span_id": f"{number + 1:016x}"}
        | {"otel_trace_id": (trace_id.encode() * 16)[:16].hex(), "status": "success"}
        | {"span_start_unix_nano": _nano(begin), "span_end_unix_nano": _nano(begin + 1)}
        | {"parent_span_id": "f" * 16, "timestamp": at(begin + 1), **usage}
        for number, usage in enumerate(usages)
    ]
    return [*events[:2], *made, *events[2:]]


def _nano(seconds):
    return parse_window(at(seconds), None, now=0).start


def used(prompt, completion, **more):
    total = prompt + (completion or 0)
    return {
        "llm_prompt_tokens": prompt,
        "llm_completion_tokens": completion,
        "llm_tokens_used": total,
        **more,
    }


def test_calls_without_a_sent_cost_are_priced_from_the_price_list(told, costs, monkeypatch):
    told(*calls("plain", used(1000, 100), used(1000, 0)))
    told(*calls("mixed", used(1000, 100), used(500, 5, llm_cost_usd=0.25), begin=10))
    told(*calls("sent", used(1000, 100, llm_cost_usd=0.5), begin=20))
    told(*calls("nobody's", used(9, 9, llm_model="unheard-of"), begin=40))
    told(*calls("later", used(1000, 100), begin=DAY))
    cached = {"llm_cached_tokens": 400, "llm_cache_creation_tokens": 100}
    told(*calls("cached", used(1000, 100, **cached), begin=50))
    apart = {**used(200, 100, **cached), "llm_tokens_used": 800}
    told(*calls("apart", apart, begin=60))
    claude = {"llm_provider": "anthropic", "llm_model": "claude-x"}
    told(*calls("claude", used(1_000_000, 0, **claude), begin=70))
    told(
        *calls("asked", used(1000, 0, llm_model=None, llm_model_requested="house-model"), begin=80)
    )

    assert costs(monkeypatch) == {
        "plain": 0.022,
        "mixed": 0.262,
        "sent": 0.5,
        "nobody's": None,
        "later": 0.12,
        "cached": round((500 * 10 + 400 * 1 + 100 * 12 + 100 * 20) / 1e6, 6),
        "apart": round((200 * 10 + 400 * 1 + 100 * 12 + 100 * 20) / 1e6, 6),
        "claude": 3.0,
        "asked": 0.01,
    }


def test_sent_cost_is_not_rounded_in_the_list(told, priced, tenant):
    told(*run("exact", cost=0.0009832))
    least = SearchQuery(filters=TraceFilters(least={"cost_usd": 0.0009832}))

    (found,) = Search(priced, lambda: NOW).answer(tenant, least)["traces"]

    assert found["cost_usd"] == 0.0009832


def test_third_party_spans_without_a_sent_cost_are_priced(spans, costs, monkeypatch):
    usage = {"gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 100}
    call = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", **usage}
    spans(
        spans_request(span(1), span(2, parent=1, **call, **{"gen_ai.request.model": "house-model"}))
    )
    assert costs(monkeypatch) == {"ab" * 16: 0.012}


def test_runs_are_found_sorted_and_summed_up_by_what_they_cost(told, priced, tenant):
    told(*calls("cheap", used(10, 1), session_id="s"))
    told(*calls("dear", used(100_000, 1), begin=10, session_id="s"))
    told(*calls("sent", used(1, 1, llm_cost_usd=0.5), begin=20, session_id="s"))
    search = Search(priced, lambda: NOW)

    def ids(**asked):
        return [each["trace_id"] for each in search.answer(tenant, SearchQuery(**asked))["traces"]]

    assert ids(filters=TraceFilters(least={"cost_usd": 0.4})) == ["sent", "dear"]
    assert ids(filters=TraceFilters(most={"cost_usd": 0.4})) == ["cheap"]
    window = Window(start=_nano(-10))
    assert ids(sort="cost_usd", window=window) == ["dear", "sent", "cheap"]
    sessions = Sessions(priced, search, Questions(priced))
    answer = sessions.list_document(tenant, window, user="", limit=5, cursor=None)
    (session,) = json.loads(answer)["sessions"]
    assert session["cost_usd"] == pytest.approx(1.00002 + 0.00012 + 0.5)


def test_later_price_applies_to_stored_calls(told, priced, tenant):
    told(*calls("waits", used(1000, 0, llm_model="new-model")))
    search = Search(priced, lambda: NOW)

    def cost():
        (found,) = search.answer(tenant, SearchQuery())["traces"]
        return found["cost_usd"]

    assert cost() is None
    load_prices(priced, parse(f"{PRICES}openai,new-model,2020-01-01,7,7,,,us\n", name="own"))
    assert cost() == pytest.approx(0.007)
    load_prices(priced, parse(PRICES, name="own"))


def test_a_model_that_is_called_for_the_first_time_has_its_price_at_once(told, priced, tenant):
    search = Search(priced, lambda: NOW)

    def listed():
        found = search.answer(tenant, SearchQuery())["traces"]
        return {each["trace_id"]: each["cost_usd"] for each in found}

    told(*calls("known", used(1000, 0)))
    assert listed() == {"known": pytest.approx(0.01)}
    first = {"llm_provider": "anthropic", "llm_model": "claude-never-seen"}
    told(*calls("new", used(1_000_000, 0, **first), begin=10))
    assert listed() == {"known": pytest.approx(0.01), "new": pytest.approx(3.0)}


def test_more_prices_than_can_be_sent_along_are_looked_up(told, costs, monkeypatch):
    monkeypatch.setattr(pricing, "MAX_BOUND", 0)
    told(*calls("plain", used(1000, 100)))

    assert costs(monkeypatch) == {"plain": 0.012}


@pytest.fixture
def agents(priced, tenant):
    """Return the cost of each agent, checked to be equal by minute, by hour and in total."""
    asked = Agents(priced)

    def ask():
        documents = [
            json.loads(
                asked.list_document(
                    tenant, parse_window(at(start), at(2 * DAY), now=NOW), points=points, limit=100
                )
            )
            for start, points in ((-60, 60), (-36_000, 1), (-60, 500))
        ]
        first, *others = [
            {each["agent"]: each["cost_usd"] for each in document["agents"]}
            for document in documents
        ]
        for other in others:
            assert other == pytest.approx(first)
        for name, cost in first.items():
            window = parse_window(at(-60), at(2 * DAY), now=NOW)
            one = json.loads(asked.document(tenant, name, window, points=50))
            assert one["cost_usd"] == cost
            steps = sum(each["cost_usd"] or 0 for each in one["series"])
            assert steps == pytest.approx(cost or 0, abs=1e-8)
        return {name: cost and round(cost, 6) for name, cost in first.items()}

    return ask


def test_statistics_of_agents_have_the_costs_that_lists_have(
    priced, told, spans, agents, costs, monkeypatch
):
    told(
        *calls("a", used(1000, 100, agent_name="ann"), used(500, 5, agent_name="bob")),
        *calls("b", used(1000, 100, agent_name="ann"), begin=DAY),
        *calls("c", used(1000, 100, agent_name="ann", llm_cost_usd=0.5), begin=20),
        *calls("d", used(9, 9, agent_name="eve", llm_model="unheard-of"), begin=40),
    )
    call = {**UNPRICED, "gen_ai.agent.name": "theirs"}
    spans(spans_request(span(1), span(2, parent=1, **call)))
    settle_all(priced)

    found = agents()

    own = {"ann": 0.012 + 0.12 + 0.5, "bob": 0.0051, "eve": None, "theirs": 0.012}
    assert {name: found[name] for name in own} == own
    listed = costs(monkeypatch)
    assert sum(filter(None, listed.values())) == pytest.approx(sum(filter(None, own.values())))


def test_costs_of_agents_are_rounded_to_the_nearest_nanodollar(told, migrated, tenant):
    told(*calls("exact", used(1, 1, agent_name="ann", llm_cost_usd=0.0000157)))

    for table in ("agent_minutes", "agent_hours"):
        cost = f"SELECT sum(call_nano_usd) FROM {table} WHERE tenant = '{tenant}'"
        assert migrated.rows(cost) == [("15700",)]


def test_the_cost_of_a_run_that_is_forgotten_is_taken_from_its_agents(told, agents, priced, tenant):
    told(
        *calls("stays", used(1000, 100, agent_name="ann")),
        *calls("goes", used(2000, 0, agent_name="ann"), used(7, 7, agent_name="bob"), begin=5),
    )
    assert agents()["ann"] == 0.032

    delete_rows(priced, runs_of(priced, tenant, ["goes"]))

    left = agents()
    assert left["ann"] == 0.012
    assert left.get("bob") is None


def test_recent_spending_includes_priced_calls(told, priced, tenant):
    told(
        *calls("a", used(100_000, 0, agent_name="ann"), used(1, 0, llm_cost_usd=3, agent_name="x"))
    )

    spent = Agents(priced, now=lambda: _nano(DAY_SECONDS - 60) / 1e9).spending()

    (mine,) = [each for each in spent if each.tenant == tenant]
    assert mine.usd_per_hour_of_day * 24 == pytest.approx(4.0, rel=0.01)


def test_tokens_without_a_price_stand_beside_every_sum(told, priced, tenant):
    unknown = {"llm_model": "gpt-x\t9", "agent_name": "ann"}
    told(*calls("part", used(1000, 100, agent_name="ann"), used(40, 2, **unknown), session_id="s"))
    told(*calls("none", used(1000, 100), begin=10, session_id="s"))
    reader = RunReader(priced)
    search, traces = Search(priced, lambda: NOW), Traces(reader, lambda: NOW)
    window = parse_window(at(-60), at(DAY), now=NOW)

    def unpriced(document):
        return document["unpriced_tokens"], document["unpriced_models"]

    listed = search.answer(tenant, SearchQuery())["traces"]
    assert {each["trace_id"]: unpriced(each) for each in listed} == {
        "part": (42, ["gpt-x\t9"]),
        "none": (0, []),
    }
    run_page = json.loads(traces.document(tenant, "part"))["summary"]
    assert unpriced(run_page) == (42, ["gpt-x\t9"])
    replay = json.loads(ReplayQuery(reader, traces, search).document(tenant, "part"))["summary"]
    assert unpriced(replay) == (42, ["gpt-x\t9"])
    sessions = Sessions(priced, search, Questions(priced)).list_document(
        tenant, window, user="", limit=5, cursor=None
    )
    assert unpriced(json.loads(sessions)["sessions"][0]) == (42, ["gpt-x\t9"])
    agents = json.loads(Agents(priced).list_document(tenant, window, points=1, limit=5))["agents"]
    assert unpriced(agents[0]) == (42, ["gpt-x\t9"])
    assert {(each.tenant, each.calls) for each in Agents(priced).unpriced()} >= {(tenant, 1)}
