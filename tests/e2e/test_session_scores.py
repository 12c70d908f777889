"""Scores of a session itself: given, shown, searched and deleted."""

import json
import os
import subprocess
import sys
import uuid
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import expect

from tests.support.collector import http
from tests.support.contract import example
from tracereel._redact.event_redaction import hashed
from tracereel.client import Client

EMAIL = "ana-{}@example.com"


@pytest.fixture
def session(collector):
    """Return the id of a session with one run."""
    return talk(collector, f"ses-{uuid.uuid4().hex}")


@pytest.fixture
def client(collector):
    return Client(collector.url)


def talk(collector, name, run=None, **fields):
    run = run or f"trc_{uuid.uuid4().hex}"
    event = {**example("agent.execution.completed"), "trace_id": run, "session_id": name, **fields}
    answer = collector.post_events([{**event, "event_id": f"evt-{run}"}])
    assert answer.json()["accepted"] == 1, answer.body
    return name


def give(collector, *scores):
    body = json.dumps(scores).encode()
    answer = http("POST", f"{collector.url}/v1/scores?wait=stored&timeout=60", body)
    assert answer.json()["status"] == "stored", answer.body


def sessions(collector, **asked):
    query = urlencode({"from": "2000-01-01", "limit": 500, **asked}, doseq=True)
    answer = http("GET", f"{collector.url}/v1/sessions?{query}")
    assert answer.status == 200, answer.body
    return {each["session_id"]: each for each in answer.json()["sessions"]}


def test_scores_of_a_session_are_shown_with_it_and_not_with_its_turns(collector, session):
    give(
        collector,
        {"session_id": session, "name": "helpful", "value": 0.75, "comment": "found it"},
        {"session_id": session, "id": "again", "name": "tone", "value": "rude"},
        {"session_id": session, "id": "again", "name": "tone", "value": "warm"},
    )

    shown = http("GET", f"{collector.url}/v1/sessions/{session}").json()
    assert shown["scores"] == [
        {"name": "tone", "value": "warm", "comment": None},
        {"name": "helpful", "value": 0.75, "comment": "found it"},
    ]
    assert [turn["scores"] for turn in shown["turns"]] == [[]]
    assert sessions(collector, scores=1)[session]["scores"] == shown["scores"][:1]
    assert "scores" not in sessions(collector)[session]
    listed = http("GET", f"{collector.url}/v1/scores?session={session}").json()["scores"]
    assert [(each["session_id"], each["trace_id"]) for each in listed] == [(session, None)] * 2


def test_sessions_are_found_by_their_scores(collector):
    name = f"q-{uuid.uuid4().hex}"
    good, bad, rude = (talk(collector, f"{name}-{each}") for each in ("good", "bad", "rude"))
    give(
        collector,
        {"session_id": good, "name": name, "value": True},
        {"session_id": bad, "id": "1", "name": name, "value": 0.1},
        {"session_id": rude, "name": name, "value": f"c-{name}"},
    )

    assert sessions(collector, score=name).keys() == {good, bad, rude}
    assert sessions(collector, score=name, min_score=0.5).keys() == {good}
    assert sessions(collector, score=["other", name], max_score=0.1).keys() == {bad}
    assert sessions(collector, score_category=f"c-{name}").keys() == {rude}
    assert sessions(collector, score="'; DROP TABLE scores --").keys() == set()
    assert not sessions(collector, score=name, user="nobody")
    give(collector, {"session_id": bad, "id": "1", "name": name, "value": 0.9})
    assert sessions(collector, score=name, min_score=0.5).keys() == {good, bad}
    first = http("GET", f"{collector.url}/v1/sessions?score={name}&limit=2&from=2000-01-01").json()
    query = urlencode({"score": name, "limit": 2, "from": "2000-01-01", "cursor": first["next"]})
    second = http("GET", f"{collector.url}/v1/sessions?{query}").json()
    assert len(first["sessions"] + second["sessions"]) == 3
    # A score of a session is none of its runs.
    assert not http("GET", f"{collector.url}/v1/traces?score={name}").json()["traces"]


def test_filters_of_scores_that_cannot_match_are_refused(collector):
    for query, why in (
        ("min_score=2&max_score=1", "min_score: 2 is above max_score: 1"),
        ("&".join(f"score={n}" for n in range(21)), "21 values at once"),
    ):
        answer = http("GET", f"{collector.url}/v1/sessions?{query}")
        assert (answer.status, why in answer.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ({}, "`trace_id` of a run or the `session_id` of a session"),
        ({"trace_id": "t", "session_id": "s"}, "not both"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": "s" * 257}, "session_id"),
        ({"session_id": "s", "span_id": "00f067aa0ba902b7"}, "no step"),
    ],
)
def test_a_score_rates_either_a_run_or_a_session(collector, target, why):
    body = json.dumps({"name": "n", "value": 1, **target}).encode()
    answer = http("POST", f"{collector.url}/v1/scores", body)

    assert answer.status == 400
    assert why in answer.json()["error"]["message"]


def test_a_session_that_is_stored_as_a_hash_is_scored_and_found_by_its_id(collector):
    email, name = EMAIL.format(uuid.uuid4().hex), f"q-{uuid.uuid4().hex}"
    stored = talk(collector, hashed(email))
    give(collector, {"session_id": email, "name": name, "value": 1})

    assert sessions(collector, score=name, scores=1)[stored]["scores"][0]["value"] == 1
    for form in (email, stored):
        shown = http("GET", f"{collector.url}/v1/sessions/{quote(form)}").json()
        assert [each["name"] for each in shown["scores"]] == [name]
        listed = http("GET", f"{collector.url}/v1/scores?session={quote(form)}").json()
        assert len(listed["scores"]) == 1


def test_scores_of_a_session_go_with_its_last_run(collector):
    name = f"ses-{uuid.uuid4().hex}"
    runs = [f"trc_{uuid.uuid4().hex}" for _ in range(2)]
    for run in runs:
        talk(collector, name, run)
    give(collector, {"session_id": name, "name": "n", "value": 1})

    def left():
        return http("GET", f"{collector.url}/v1/scores?session={name}").json()["scores"]

    assert http("DELETE", f"{collector.url}/v1/traces/{runs[0]}", timeout=120).status == 200
    assert len(left()) == 1
    assert http("DELETE", f"{collector.url}/v1/traces/{runs[1]}", timeout=120).status == 200
    assert left() == []


def test_the_client_and_the_commands_score_and_find_a_session(collector, client, session):
    name = f"q-{uuid.uuid4().hex[:8]}"
    client.score_session(session, name, True, comment="all answered", author="ana")

    def tracereel(*words):
        command = [sys.executable, "-m", "tracereel", *words, "--endpoint", collector.url]
        environ = {**os.environ, "COLUMNS": "200"}
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == (2 if "--step" in words else 0), done.stderr
        return done.stdout or done.stderr

    assert tracereel("score", f"{name}-2", "0.25", "--session", session).startswith("score scr_")
    give(collector, {"session_id": "other", "name": "flush", "value": 1})
    (found,) = client.find_sessions(since="2000-01-01", score=name, min_score=1, scores=5)
    assert [(each.name, each.value) for each in found.scores] == [(f"{name}-2", 0.25), (name, True)]
    assert client.session(session).scores == found.scores
    assert client.scores(session=session).scores[1].author == "ana"
    listed = tracereel("sessions", "--score", name, "--since", "2000-01-01")
    assert f"{name} yes" in listed
    assert session in listed
    assert f"{name}-2 0.25" in tracereel("sessions", session)
    run = found.last_trace_id
    tracereel("score", "correct", "yes", "--run", run, "--comment", "by hand", "--id", "x")
    give(collector, {"session_id": "other", "name": "flush", "value": 1})
    assert client.scores(trace_id=run).scores[0].value == "yes"
    assert "no steps" in tracereel("score", "n", "1", "--session", session, "--step", "x")


def test_a_session_is_scored_with_a_key_and_found_on_the_page(visit, collector, session):
    name = f"q-{uuid.uuid4().hex}"
    page = visit.open(f"#/session/{session}")
    expect(page.locator(".turn")).to_have_count(1)
    box = page.locator(".page.session > .scores")
    expect(box).to_contain_text("none yet")
    page.keyboard.press("s")
    expect(box.locator("input[name=name]")).to_be_focused()
    box.locator("input[name=name]").fill(name)
    box.locator("input[name=value]").fill("0.5")
    box.locator("input[name=comment]").fill("<b>half</b>")
    page.keyboard.press("Enter")
    expect(box.locator("li")).to_contain_text(f"{name} 0.5")
    expect(box.locator("li p")).to_have_text("<b>half</b>")
    expect(page.locator(".heading .score")).to_have_text(f"{name} 0.5")

    page = visit.open("#/sessions?from=2000-01-01")
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type(f"score:{name} score:>0.4")
    page.keyboard.press("Enter")
    expect(page.locator(".chip")).to_have_count(2)
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody .score")).to_have_text(f"{name} 0.5")
    page.get_by_label(f"Remove score: {name}").click()
    page.get_by_role("searchbox").or_(page.get_by_role("combobox")).first.fill("agent:x")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Sessions are searched by user: and score:")).to_be_visible()
