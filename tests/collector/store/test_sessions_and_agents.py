"""Sessions with turns and agent statistics, read from rollup tables."""

import json
import math
import random

import pytest

from tests.collector.store.runs_to_find import NOW, START, at, run, span, spans_request
from tests.support.settling import settle_all
from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.query import agents as statistics
from tracereel_collector.query.agents import Agents
from tracereel_collector.query.content.questions import Questions
from tracereel_collector.query.search import Search, SearchQuery
from tracereel_collector.query.sessions import Sessions
from tracereel_collector.query.window import parse_window
from tracereel_collector.store.deletion import delete_rows, runs_of


@pytest.fixture
def sessions(migrated):
    return Sessions(migrated, Search(migrated, lambda: NOW), Questions(migrated))


@pytest.fixture
def agents(migrated, tenant):
    asked = Agents(migrated)

    def ask(name=None, start=None, end=None, points=60):
        window = parse_window(start or at(-60), end or at(3600), now=NOW)
        if name is None:
            return json.loads(asked.list_document(tenant, window, points=points, limit=100))
        return json.loads(asked.document(tenant, name, window, points=points))

    return ask


def listed(sessions, tenant, **given):
    asked = {"user": "", "limit": 50, "cursor": None, **given}
    return json.loads(
        sessions.list_document(tenant, parse_window(at(-3600), None, now=NOW), **asked)
    )


def call(trace_id, number, kind, seconds, **fields):
    """Return a model or tool call of the parsing agent."""
    return {
        "event_id": f"{trace_id}-call-{number}",
        "event_type": f"agent.{kind}.called",
        "trace_id": trace_id,
        "timestamp": at(seconds),
        "agent_name": "parsing_agent",
        "status": "success",
        "duration_ms": 40,
        **fields,
    }


def test_a_conversation_has_turns_and_each_turn_its_rounds(told, sessions, tenant):
    told(
        *run("one", session_id="s", user_id="ana", prompt="any slot?", output="at ten"),
        call("one", 1, "llm", 0.1, llm_model="gpt-4o", llm_tokens_used=30),
        call("one", 2, "tool", 0.2, tool_name="calendar", arguments={"day": "friday"})
        | {"result_summary": "three slots", "tool_call_id": "c1"},
        call("one", 3, "tool", 0.3, tool_name="weather"),
        call("one", 4, "llm", 0.4, llm_model="gpt-4o", llm_tokens_used=12),
        *run("two", begin=60, session_id="s", user_id="ana", prompt="book it", status="failed"),
        *run("other", begin=90, session_id="t", user_id="bob"),
    )

    found = json.loads(sessions.document(tenant, "s"))

    assert [turn["trace_id"] for turn in found["turns"]] == ["one", "two"]
    assert (found["users"], found["truncated"]) == (["ana"], False)
    first, second = found["turns"]
    assert (first["prompt"], first["answer"], first["tokens"]) == ("any slot?", "at ten", 42)
    assert [[tool["tool"] for tool in each["tools"]] for each in first["rounds"]] == [
        ["calendar", "weather"],
        [],
    ]
    assert first["rounds"][0]["tools"][0] == {
        "tool": "calendar",
        "tool_call_id": "c1",
        "status": "success",
        "duration_ms": 40,
        "arguments": '{"day":"friday"}',
        "result": "three slots",
    }
    assert second["status"] == "failed"

    everything = listed(sessions, tenant)["sessions"]
    assert [each["session_id"] for each in everything] == ["t", "s"]
    assert (everything[1]["turns"], everything[1]["failed_turns"]) == (2, 1)
    assert everything[1]["first_prompt"] == "any slot?"
    assert [each["session_id"] for each in listed(sessions, tenant, user="ana")["sessions"]] == [
        "s"
    ]
    page = listed(sessions, tenant, limit=1)
    following = listed(sessions, tenant, limit=1, cursor=page["next"])
    assert [each["session_id"] for each in following["sessions"]] == ["s"]
    assert following["next"] is None


def test_events_of_a_session_are_numbered_without_gaps(told, sessions, tenant):
    told(*run("other", session_id="else"))
    told(*run("second", begin=60, session_id="s"))
    told(*run("first", session_id="s"))
    told(*run("first", session_id="s"))  # stored twice

    document = json.loads(sessions.document(tenant, "s", events=100))

    assert [each["session_sequence"] for each in document["events"]] == list(range(1, 9))
    assert [each["details"]["trace_id"] for each in document["events"]] == [
        *["first"] * 4,
        *["second"] * 4,
    ]
    numbers = [each["details"]["sequence_number"] for each in document["events"]]
    assert numbers != sorted(numbers), "the collector numbers what arrives"
    places = [
        (turn["trace_id"], turn["first_session_sequence"], turn["last_session_sequence"])
        for turn in document["turns"]
    ]
    assert places == [("first", 1, 4), ("second", 5, 8)]
    assert document["total_events"] == 8


def test_events_of_a_session_come_in_pages_and_keep_their_numbers(told, sessions, tenant):
    told(*run("first", session_id="s"))
    told(*run("second", begin=60, session_id="s"))
    whole = json.loads(sessions.document(tenant, "s", events=100))["events"]

    rest = json.loads(sessions.document(tenant, "s", events=3, after_event=4))["events"]
    told(*run("third", begin=120, session_id="s"))
    later = json.loads(sessions.document(tenant, "s", events=100))["events"]

    assert rest == whole[4:7]
    assert later[:8] == whole
    assert "events" not in json.loads(sessions.document(tenant, "s"))


def test_session_of_spans_only_has_turns(spans, sessions, tenant):
    spans(
        spans_request(
            span(1, took=9, **{"gen_ai.operation.name": "invoke_agent", "session.id": "s"}),
            span(2, parent=1, begin=1, **{"gen_ai.operation.name": "chat"})
            | {"gen_ai.request.model": "m1", "gen_ai.prompt.0.content": "any slot?"},
            span(3, parent=1, begin=3, **{"gen_ai.operation.name": "execute_tool"})
            | {"gen_ai.tool.name": "calendar", "gen_ai.tool.call.arguments": "{}"},
        )
    )

    (turn,) = json.loads(sessions.document(tenant, "s"))["turns"]

    assert turn["prompt"] == "any slot?"
    assert [(each["model"], [t["tool"] for t in each["tools"]]) for each in turn["rounds"]] == [
        ("m1", ["calendar"])
    ]


def test_conversations_come_by_what_happened_last_with_all_their_turns(told, sessions, tenant):
    """With many recent sessions, the rest of the window is read only for their earlier turns."""
    told(*run("old", begin=-3000, session_id="old", user_id="ana"))
    for number in range(5):
        told(*run(f"early{number}", begin=-3000 + number, session_id=f"s{number}"))
        told(*run(f"late{number}", begin=7200 + number * 10, session_id=f"s{number}", cost=0.5))

    seen, cursor = [], None
    while True:
        answer = listed(sessions, tenant, limit=2, cursor=cursor)
        seen += [(each["session_id"], each["turns"]) for each in answer["sessions"]]
        cursor = answer["next"]
        if cursor is None:
            break

    assert seen == [*((f"s{number}", 2) for number in (4, 3, 2, 1, 0)), ("old", 1)]
    (first, *_) = listed(sessions, tenant, limit=2)["sessions"]
    assert first["cost_usd"] == pytest.approx(0.501)
    assert [each["session_id"] for each in listed(sessions, tenant, user="ana")["sessions"]] == [
        "old"
    ]


def test_a_turn_that_began_before_the_window_leaves_the_conversation_its_prompt(
    told, sessions, tenant
):
    told(*run("cut", begin=-4000, took=3800, session_id="s", prompt="before"))
    told(*run("next", begin=60, session_id="s", prompt="any slot?"))

    (found,) = listed(sessions, tenant)["sessions"]

    assert (found["turns"], found["name"], found["first_prompt"]) == (2, "booking", "any slot?")


def test_unknown_session_is_not_found(told, sessions, tenant):
    told(*run("theirs", session_id="s"), tenant="bravo")

    with pytest.raises(UnknownResourceError):
        sessions.document(tenant, "s")
    assert listed(sessions, tenant)["sessions"] == []


def test_an_agents_sums_are_those_of_its_events(told, agents):
    rnd = random.Random(4)
    took = [rnd.randrange(1, 30) for _ in range(40)]
    events = []
    for number, seconds in enumerate(took):
        status = "failed" if number % 10 == 0 else "success"
        begin = 60 * number
        events += run(f"r{number}", begin=begin, took=seconds, status=status, confidence=0.75)
    events += [
        {"event_id": f"x{n}", "trace_id": "r1", "timestamp": at(1), **each}
        for n, each in enumerate(
            [
                {"event_type": "agent.retry.attempted", "agent_name": "parsing_agent"},
                {"event_type": "agent.fallback.triggered", "primary_agent": "parsing_agent"},
            ]
        )
    ]
    told(*events)

    (found,) = agents()["agents"]

    assert found["agent"] == "parsing_agent"
    assert (found["executions"], found["failed"], found["error_rate"]) == (40, 4, 0.1)
    assert (found["retries"], found["fallbacks"]) == (1, 1)
    assert (found["tokens"], found["cost_usd"]) == (4000, 0.04)
    assert found["errors"] == {"Timeout": 4}
    assert found["confidence"] == {"mean": 0.75, "tenths": [0] * 7 + [40, 0, 0]}
    middle = sorted(took)[19] * 1000
    assert found["latency"]["p50_ms"] == middle
    assert found["latency"]["mean_ms"] == sum(took) * 1000 / 40
    assert sum(found["series"]["executions"]) == 40

    one = agents("parsing_agent", points=10)
    assert sum(point["executions"] for point in one["series"]) == 40
    assert sum(each["executions"] for each in one["durations"]) == 40
    assert one["durations"][0]["from_ms"] < min(took) * 1000 <= one["durations"][0]["to_ms"]
    assert one["durations"][-1]["from_ms"] < max(took) * 1000 <= one["durations"][-1]["to_ms"]
    assert {name: one[name] for name in ("tokens", "latency", "errors")} == {
        name: found[name] for name in ("tokens", "latency", "errors")
    }


@pytest.mark.parametrize("most", [5_000, 0])
def test_percentiles_have_microseconds_and_are_within_one_percent(
    told, spans, agents, monkeypatch, most
):
    """Five quick agents: exactly from few executions, else from the buckets of the rollup."""
    monkeypatch.setattr(statistics, "EXACT_EXECUTIONS", most)
    draw = random.Random(7)
    start = int(START.timestamp()) * 10**9
    took = {
        f"agent-{number}": [draw.randrange(200, 900) + 50 * number for _ in range(120)]
        for number in range(5)
    }
    told(
        *(
            {"event_id": f"{name}-{number}", "trace_id": f"{name}-{number}", "agent_name": name}
            | {"event_type": "agent.execution.completed", "execution_time_ms": 0}
            | {"span_id": f"{number + 1:016x}", "span_name": f"invoke_agent {name}"}
            | {"span_start_unix_nano": start, "span_end_unix_nano": start + micro * 1_000}
            | {"timestamp": at(1), "request_id": "r", "event_version": "1.0.0"}
            for name, values in took.items()
            for number, micro in enumerate(values)
        )
    )
    spans(
        spans_request(
            span(
                1, took=1, **{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "other"}
            )
        )
    )

    shown = {each["agent"]: each for each in agents()["agents"]}

    assert shown["other"]["latency"]["p50_ms"] == 1_000
    for name, values in took.items():
        latency = shown[name]["latency"]
        for share in (50, 90, 95, 99):
            true = sorted(values)[math.ceil(share * len(values) / 100) - 1] / 1_000
            assert latency[f"p{share}_ms"] == pytest.approx(true, rel=0.01 if most == 0 else 0)
        assert latency["mean_ms"] == pytest.approx(sum(values) / len(values) / 1_000, abs=0.001)
    assert len({shown[name]["latency"]["p50_ms"] for name in took}) == 5


def test_any_window_counts_what_is_in_it_whichever_table_it_is_read_from(told, agents):
    told(*[e for n in range(30) for e in run(f"r{n}", begin=n * 600, took=1)])

    for first, last in ((0, 1), (3, 4), (5, 29), (6, 24), (1, 13), (0, 30)):
        found = agents(start=at(first * 600), end=at(last * 600))["agents"]
        assert found[0]["executions"] == last - first
        assert sum(found[0]["series"]["executions"]) == last - first
        one = agents("parsing_agent", start=at(first * 600), end=at(last * 600), points=3)
        assert sum(point["executions"] for point in one["series"]) == last - first


def test_agents_of_other_instrumentations_are_counted_from_their_spans(migrated, spans, agents):
    spans(
        spans_request(
            span(1, took=2, **{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "h"}),
            span(2, took=4, error="x", **{"gen_ai.operation.name": "invoke_agent"})
            | {"gen_ai.agent.name": "h"},
            span(3, parent=1, **{"gen_ai.operation.name": "chat", "gen_ai.agent.name": "h"})
            | {"gen_ai.request.model": "m1", "gen_ai.usage.input_tokens": 5}
            | {"gen_ai.usage.output_tokens": 6},
        )
    )
    settle_all(migrated)

    (found,) = agents()["agents"]
    assert (found["executions"], found["failed"], found["tokens"]) == (2, 1, 11)
    assert (found["models"], found["latency"]["mean_ms"]) == ({"m1": 1}, 3000)


def test_idle_agent_has_zero_executions_and_unknown_agent_is_not_found(told, agents):
    told(*run("r"))

    assert agents("parsing_agent", start=at(7200), end=at(9000))["executions"] == 0
    with pytest.raises(UnknownResourceError):
        agents("nobody")


def test_deleted_runs_are_subtracted_from_rollups(told, spans, agents, migrated, tenant):
    told(*run("stays"), *run("goes", took=5, status="failed", llm_model="m"))
    told(*run("goes-alone", agent="loner"))
    before = agents()["agents"]
    spans(
        spans_request(
            span(1, **{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "h"})
        )
    )
    assert {each["agent"] for each in before} == {"parsing_agent", "loner"}

    runs = runs_of(migrated, tenant, ["goes", "goes-alone", "ab" * 16])
    delete_rows(migrated, runs)

    for start in (at(-60), at(-20000)):  # by minute and by hour
        left = {each["agent"]: each for each in agents(start=start)["agents"]}
        assert (left["parsing_agent"]["executions"], left["parsing_agent"]["failed"]) == (1, 0)
        assert left["parsing_agent"]["errors"] == {}
        assert left["parsing_agent"]["latency"]["mean_ms"] == 2000
        for gone in ("loner", "h"):
            assert left.get(gone, {"executions": 0})["executions"] == 0
    search = Search(migrated, lambda: NOW)
    assert [each["trace_id"] for each in search.answer(tenant, SearchQuery())["traces"]] == [
        "stays"
    ]
