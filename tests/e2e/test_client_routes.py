"""The client and its commands against a real collector with recorded runs."""

import asyncio
import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from tests.support.collector import CollectorProcess
from tests.support.contract import example
from tests.support.keys import make_key
from tests.support.waiting import wait_until
from tracereel.cli.terminal import display_width
from tracereel.client import (
    AccessDeniedError,
    AgentExecutionReplay,
    AsyncClient,
    Client,
    InvalidRequestError,
    NotFoundError,
    TraceNotFoundError,
)

PAGE = Path(__file__).parents[2] / "docs" / "sdk" / "client.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
HOSTILE = "\x1b[2J\x1b]0;owned\x07 mañana \u202eevil"


def run_events(trace_id, *, status, reply, session="ses_1"):
    """Return a pipeline with one agent: contract events with spans."""
    common = {"trace_id": trace_id, "session_id": session, "user_id": "usr_1", "service": "clinic"}
    pipeline, agent = {"span_id": "a" * 16}, {"span_id": "b" * 16, "parent_span_id": "a" * 16}
    named = {"agent_name": "parser", "request_id": "req"}
    closing = (
        {
            **example("agent.execution.failed"),
            "error_type": "LLMTimeoutError",
            "error_message": reply,
            "execution_time_before_failure_ms": 40,
        }
        if status == "failed"
        else {**example("agent.execution.completed"), "output_summary": reply}
    )
    started, ended = example("agent.pipeline.started"), example("agent.pipeline.completed")
    prompt = f"una cita {HOSTILE}"
    events = [
        {**started, **pipeline, "pipeline_type": "booking", "user_prompt": prompt},
        {**example("agent.execution.started"), **agent, **named},
        {**closing, **agent, **named},
        {**ended, **pipeline, "pipeline_type": "booking", "status": status},
    ]
    return [
        {
            **event,
            **common,
            "event_id": f"{trace_id}-{number}",
            "timestamp": f"2026-11-16T02:00:00.{number:03d}Z",
        }
        for number, event in enumerate(events)
    ]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Return a collector with three runs: two successful, one failed."""
    folder = tmp_path_factory.mktemp("client")
    # Live data is read from the queue, so everything stays queued in these tests.
    running = CollectorProcess(folder, environ={"TRACEREEL_RETAIN_SECONDS": "900"}).start()
    running.key = make_key(folder, scope="write,read,admin")["key"]
    running.sent = [
        event
        for number, status in enumerate(["success", "failed", "success"])
        for event in run_events(f"trc_client_{number}", status=status, reply=f"reply {number}")
    ]
    # A new key is accepted within a second.
    headers = {"x-api-key": running.key}
    answer = wait_until(lambda: _accepted(running, headers))
    assert answer["accepted"] == len(running.sent), answer
    yield running
    running.stop()


def _accepted(collector, headers):
    answer = collector.post_events(collector.sent, headers=headers)
    return answer.json() if answer.status == 200 else None


@pytest.fixture
def client(asked):
    return Client(asked.url, asked.key)


def test_a_run_is_replayed_with_every_event(client, asked):
    replay = client.replay("trc_client_0")

    shown = [step.details["event_id"] for step in replay.timeline]
    assert shown == [f"trc_client_0-{n}" for n in range(4)]
    assert replay.summary["total_events"] == 4
    with pytest.raises(TraceNotFoundError):
        client.replay("trc_client_unknown")


def test_plain_code_and_coroutines_get_the_same_document(asked):
    replay = AgentExecutionReplay(asked.url, asked.key)

    document = replay.replay_sync("trc_client_0")

    assert document == asyncio.run(replay.replay("trc_client_0"))
    assert list(document)[:3] == ["trace_id", "timeline", "summary"]


def test_a_run_is_read_page_by_page_at_a_moment_and_played(client, asked):
    whole = [step.details["event_id"] for step in client.steps("trc_client_0", page_size=3)]
    assert whole == [f"trc_client_0-{n}" for n in range(4)]
    state = client.state("trc_client_0", 1)
    assert state.events_so_far < 4
    with client.replay_stream("trc_client_0", speed=0) as stream:
        assert [step.details["event_id"] for step in stream] == whole
    assert stream.ended_with["total_events"] == 4


def test_a_run_is_a_tree(client):
    trace = client.trace("trc_client_1")

    assert [(step.depth, step.kind, step.status) for step in trace.steps] == [
        (0, "pipeline", "failed"),
        (1, "agent", "failed"),
    ]
    assert trace.steps[1].error["type"] == "LLMTimeoutError"
    assert trace.session_id == "ses_1"


def test_long_run_is_returned_as_an_outline(client):
    tree = client.trace("trc_client_1")
    assert client.trace("trc_client_1", outline_above=2) == tree

    outlined = client.trace("trc_client_1", outline_above=1)

    assert outlined.steps == ()
    assert outlined.summary == tree.summary
    assert len(outlined.outline) == 2
    for short, step in zip(outlined.outline.steps(), tree.steps, strict=True):
        for name in ("id", "depth", "kind", "name", "status", "agent", "offset_ms", "duration_ms"):
            assert getattr(short, name) == getattr(step, name)
        assert (short.tokens, short.cost_usd) == (step.tokens, step.cost_usd)
        assert (short.confidence, short.children) == (step.confidence, step.children)


def test_a_step_is_read_alone(client, asked):
    found = client.step_alone("trc_client_1", "b" * 16)

    assert (found.step.id, found.step.error["type"]) == ("b" * 16, "LLMTimeoutError")
    assert [each["event_id"] for each in found.events] == ["trc_client_1-1", "trc_client_1-2"]
    with pytest.raises(TraceNotFoundError):
        client.step_alone("trc_client_1", "c" * 16)

    async def ask():
        async with AsyncClient(asked.url, asked.key) as other:
            outlined = await other.trace("trc_client_1", outline_above=0)
            return await other.step_alone("trc_client_1", outlined.outline.id[1])

    assert asyncio.run(ask()) == found


def test_completeness_and_comparison(client, asked):
    assert client.completeness("trc_client_0").verdict == "unknown"
    assert client.diff("trc_client_0", "trc_client_0").same
    diff = client.diff("trc_client_0", "trc_client_1")
    assert not diff.same
    assert diff.first_difference.change == "changed"


def test_runs_are_found_page_by_page(client):
    every = [run.trace_id for run in client.find(page_size=1, session="ses_1")]
    assert sorted(every) == [f"trc_client_{n}" for n in range(3)]
    assert len(list(client.find(most=2, page_size=1))) == 2

    (failed,) = client.find(status="failed", pipeline=["booking", "other"], agent="parser")
    assert failed.trace_id == "trc_client_1"
    assert failed.error_types == ("LLMTimeoutError",)
    page = client.traces(limit=0, facets=["status"], since="2026-11-16T00:00:00Z")
    assert page.facets
    assert (
        client.traces(limit=0, facets="status", since="2026-11-16T00:00:00Z").facets == page.facets
    )


def test_conversations_and_agents(client):
    sessions = {each.session_id: each for each in client.find_sessions(since="2026-11-15")}
    session = sessions["ses_1"]
    assert (session.session_id, session.turns, session.failed_turns) == ("ses_1", 3, 1)
    conversation = client.session("ses_1")
    assert {turn.trace_id for turn in conversation.turns} == {f"trc_client_{n}" for n in range(3)}
    window = {"since": "2026-11-16T01:00:00Z", "until": "2026-11-16T03:00:00Z"}
    agents = {each.agent: each for each in client.agents(**window).agents}
    assert (agents["parser"].executions, agents["parser"].failed) == (3, 1)
    assert client.agent("parser", **window).error_rate == pytest.approx(1 / 3, abs=0.01)
    with pytest.raises(NotFoundError):
        client.session("ses_unknown")


def test_scores_are_given_and_read(client):
    answer = client.score("trc_client_0", "helpful", 0.5, comment="good", author="ana")
    assert answer["accepted"] == 1

    (score,) = wait_until(lambda: list(client.all_scores(trace_id="trc_client_0")))
    assert (score.name, score.value, score.comment) == ("helpful", 0.5, "good")
    (average,) = client.score_averages(name="helpful")
    assert (average.scores, average.average) == (1, 0.5)


def test_questions_in_sql(client):
    answer = client.sql(
        "SELECT trace_id, count() AS n FROM agent_events WHERE trace_id = {id:String} GROUP BY 1",
        {"id": "trc_client_0"},
    )

    assert answer.dicts() == [{"trace_id": "trc_client_0", "n": 4}]
    with pytest.raises(AccessDeniedError, match="this statement is refused"):
        client.sql("DROP TABLE agent_events")
    with pytest.raises(InvalidRequestError):
        client.sql("SELECT nothing FROM agent_events")


def test_export_is_complete_and_reports_progress(client, tmp_path):
    told = []
    rows = list(
        client.export(
            trace_id="trc_client_0", progress=lambda done, total: told.append((done, total))
        )
    )

    assert [row["event_id"] for row in rows] == [f"trc_client_0-{n}" for n in range(4)]
    assert told[-1] == (4, 4)
    told.clear()
    size = client.export_to(
        tmp_path / "events.parquet",
        format="parquet",
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == len(list(client.export()))
    assert size == (tmp_path / "events.parquet").stat().st_size
    assert (tmp_path / "events.parquet").read_bytes()[:4] == b"PAR1"
    assert [file.name for file in tmp_path.iterdir()] == ["events.parquet"]


def test_coroutines_send_requests_concurrently(asked):
    async def ask():
        async with AsyncClient(asked.url, asked.key) as client:
            traces = await asyncio.gather(*(client.trace(f"trc_client_{n}") for n in range(3)))
            found = [run.trace_id async for run in client.find(page_size=2, session="ses_1")]
            return [trace.state for trace in traces], len(found)

    states, found = asyncio.run(ask())

    assert states == ["success", "failed", "success"]
    assert found == 3


def test_live_stream_resumes_where_it_stopped(client, asked):
    first = asked.post_events(
        [{**asked.sent[0], "event_id": f"live-{n}", "trace_id": "trc_live"} for n in range(3)],
        headers={"x-api-key": asked.key},
        wait=False,
    ).json()["first_sequence_number"]

    with client.tail(trace="trc_live", last_event_id=str(first)) as stream:
        steps = iter(stream)
        shown = [next(steps).details["event_id"] for _ in range(2)]

    assert shown == ["live-1", "live-2"]
    assert stream.last_event_id == str(first + 2)
    assert client.delete_trace("trc_live").status == "deleted"


def test_a_key_from_the_environment_and_one_that_is_wrong(asked, monkeypatch):
    monkeypatch.setenv("TRACEREEL_ENDPOINT", asked.url)
    monkeypatch.setenv("TRACEREEL_API_KEY", asked.key)
    assert Client().trace("trc_client_0").trace_id == "trc_client_0"
    with pytest.raises(AccessDeniedError, match="TRACEREEL_API_KEY"):
        Client(api_key="tr_wrong").traces()


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_snippets_of_the_page_run(asked, number, monkeypatch, tmp_path):
    number_of_failed = asked.post_events(
        [
            {
                **run_events("trc_snippet", status="failed", reply="x", session="ses_2")[2],
                "event_id": f"s-{number}",
                "agent_name": "other",
            }
        ],
        headers={"x-api-key": asked.key},
        wait=False,
    ).json()["first_sequence_number"]
    monkeypatch.setenv("TRACEREEL_ENDPOINT", asked.url)
    monkeypatch.setenv("TRACEREEL_API_KEY", asked.key)
    monkeypatch.chdir(tmp_path)
    known = {"TRACE_ID": "trc_client_0", "LAST_EVENT_ID": str(number_of_failed - 1)}

    exec(compile(SNIPPETS[number], f"client.md:{number}", "exec", dont_inherit=True), known)


def command(collector, *words, width=100, **environ):
    return subprocess.run(
        [sys.executable, "-m", "tracereel", *words],
        env={
            **os.environ,
            "TRACEREEL_ENDPOINT": collector.url,
            "TRACEREEL_API_KEY": collector.key,
            "COLUMNS": str(width),
            "PYTHONIOENCODING": "utf-8",
            **environ,
        },
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


WINDOW = ("--since", "2026-11-16T01:00:00Z")
COMMANDS = {
    "traces": (("traces", *WINDOW), ["trc_client_1", "failed", "booking"]),
    "trace": (("trace", "trc_client_1"), ["booking", "parser", "LLMTimeoutError"]),
    "replay": (("replay", "trc_client_1"), ["parser", "failed after 40 ms"]),
    "agents": (("agents", *WINDOW), ["parser", "33.3%"]),
    "agent": (("agents", "parser", *WINDOW), ["3 calls", "LLMTimeoutError 1"]),
    "sessions": (("sessions", *WINDOW), ["ses_1"]),
    "session": (("sessions", "ses_1"), ["asked", "trc_client_2"]),
    "tail": (("tail", "-n", "4"), ["other", "failed"]),
}


def words_of(collector, name, trace_id):
    """Return the command's arguments; the tail starts before a run that is sent now."""
    words = COMMANDS[name][0]
    if name != "tail":
        return words
    events = run_events(trace_id, status="failed", reply="x", session="ses_2")
    answer = collector.post_events(
        [{**event, "agent_name": "other"} for event in events],
        headers={"x-api-key": collector.key},
        wait=False,
    )
    before = answer.json()["first_sequence_number"] - 1
    return (*words, "--trace", trace_id, "--after", str(before))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_it_within_the_width_and_controls_nothing(asked, name, trace_id):
    words, expected = words_of(asked, name, trace_id), COMMANDS[name][1]
    shown = command(asked, *words)
    plain = command(asked, *words, width=60, PYTHONIOENCODING="ascii")

    assert shown.returncode == 0, shown.stderr
    assert [each for each in expected if each not in shown.stdout] == []
    assert plain.stdout.isascii()
    for lines, width in ((shown.stdout, 100), (plain.stdout, 60)):
        for line in lines.splitlines():
            assert display_width(line) <= width
            assert not {unicodedata.category(c) for c in line} & {"Cc", "Cf"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_json(asked, name, trace_id):
    printed = command(asked, *words_of(asked, name, trace_id), "--json")

    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    assert lines
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_figures_choose_runs_and_live_records_in_the_terminal(asked, trace_id):
    failed = command(asked, "traces", *WINDOW, "--session", "ses_1", "--min-errors", "1", "--json")
    none = command(asked, "traces", *WINDOW, "--session", "ses_1", "--min-duration-ms", "1e9")
    words = words_of(asked, "tail", trace_id)
    least = ("-n", "1", "--min-duration-ms", "40", "--max-duration-ms", "40", "--json")
    seen = command(asked, *words, *least)

    assert [json.loads(line)["trace_id"] for line in failed.stdout.splitlines()] == ["trc_client_1"]
    assert none.stdout == "no runs\n"
    assert json.loads(seen.stdout)["event"] == "agent.execution.failed"


def test_runs_are_chosen_by_their_scores_in_code_and_in_the_terminal(client, asked):
    for number in range(3):
        client.score(f"trc_client_{number}", "kindness", number / 2, id="kindness")
    client.score("trc_client_0", "tone", "cold", id="tone")

    def stored():
        return len(client.scores(name="kindness").scores) == 3 and client.scores(name="tone").scores

    wait_until(stored, timeout=60, message="the scores were not stored")
    assert {run.trace_id for run in client.find(score="kindness", min_score=0.5)} == {
        "trc_client_1",
        "trc_client_2",
    }
    by_word = (*("traces", "--json"), *WINDOW)
    cold = command(asked, *by_word, "--score", "tone", "--score-category", "cold")
    middle = command(
        asked, *by_word, "--score", "kindness", "--min-score", "0.5", "--max-score", ".6"
    )
    wrong = command(asked, *by_word, "--min-score", "2", "--max-score", "1")

    assert [json.loads(line)["trace_id"] for line in cold.stdout.splitlines()] == ["trc_client_0"]
    assert [json.loads(line)["trace_id"] for line in middle.stdout.splitlines()] == ["trc_client_1"]
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "min_score: 2 is above max_score: 1" in wrong.stderr


def test_two_runs_are_compared_in_the_terminal(asked):
    same = command(asked, "diff", "trc_client_0", "trc_client_0")
    other = command(asked, "diff", "trc_client_0", "trc_client_1")

    assert (same.returncode, other.returncode) == (0, 1)
    assert "no difference" in same.stdout
    assert "parser" in other.stdout
    assert max(map(display_width, other.stdout.splitlines())) <= 100


def test_a_run_is_played_and_shown_at_a_moment_in_the_terminal(asked):
    played = command(asked, "replay", "trc_client_0", "--play", "--speed", "0")
    state = command(asked, "replay", "trc_client_0", "--at", "1")

    assert (played.returncode, state.returncode) == (0, 0), played.stderr + state.stderr
    assert played.stdout.count("parser") == 2
    assert "under way" in state.stdout


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("trace", "trc_client_unknown"), 1, "no events of trace"),
        (
            ("trace", "trc_client_0", "--step", "nope"),
            1,
            "Step not found: 'nope' of run 'trc_client_0'",
        ),
        (("diff", "trc_client_0", "trc_gone"), 1, "no events of trace 'trc_gone' at"),
        (("sessions", "ses_unknown"), 1, "Session not found"),
        (("traces", "--since", "whenever"), 2, "whenever"),
        (("traces", "--min-cost-usd", "much"), 2, "--min-cost-usd: 'much' is not a number"),
        (("replay", "trc_client_0", "--play", "--speed", "-1"), 2, "--speed: '-1' is less than 0"),
        (("traces", "--status", "bogus"), 2, "'bogus'; expected one of success, partial_success"),
        (("traces", "--endpoint", "http://127.0.0.1:9"), 2, "start one with"),
    ],
)
def test_command_errors_are_one_line_on_stderr(asked, words, status, text):
    refused = command(asked, *words)

    assert refused.returncode == status
    assert text in refused.stderr
    assert refused.stdout == ""
