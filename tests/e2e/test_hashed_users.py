"""A user or session whose id redaction stored as a hash is found and deleted by the id."""

import os
import subprocess
import sys
import uuid
from urllib.parse import quote

import pytest

from tests.support.collector import http
from tests.support.waiting import wait_until

PROGRAM = """
import sys, tracereel
user = sys.argv[1]
with tracereel.traced_agent("writer", trace_id=sys.argv[2], user_id=user, session_id=user):
    pass
assert tracereel.flush(30).spooled == 0
"""


def read(collector, path):
    answer = http("GET", collector.url + path)
    assert answer.status == 200, (path, answer.body)
    return answer.json()


def found(collector, query):
    return [run["trace_id"] for run in read(collector, f"/v1/traces?{query}")["traces"]]


@pytest.fixture
def recorded(collector):
    """Record a run of a user whose id is an e-mail address."""
    user, run = f"{uuid.uuid4().hex}@example.com", f"trc_{uuid.uuid4().hex}"
    environ = {**os.environ, "TRACEREEL_ENDPOINT": collector.url}
    command = [sys.executable, "-c", PROGRAM, user, run]
    subprocess.run(command, env=environ, check=True, timeout=60, capture_output=True)
    wait_until(lambda: run in found(collector, "agent=writer&limit=500"), timeout=30)
    return user, run


def test_a_hashed_user_is_found_by_the_id(collector, recorded):
    user, run = recorded
    (row,) = read(collector, f"/v1/traces?user={quote(user)}")["traces"]

    assert row["trace_id"] == run
    assert row["user_id"].startswith("sha256:")
    assert found(collector, f"user={quote(row['user_id'])}") == [run]
    assert found(collector, f"session={quote(user)}") == [run]
    assert found(collector, f"user=nobody&user={quote(user)}") == [run]
    assert found(collector, f"user={quote(user)}x") == []


def test_conversations_of_a_hashed_user_are_found_by_the_id(collector, recorded):
    user, run = recorded
    (session,) = read(collector, f"/v1/sessions?user={quote(user)}")["sessions"]

    assert session["last_trace_id"] == run
    assert session["users"] == [session["session_id"]]
    (turn,) = read(collector, f"/v1/sessions/{quote(user)}")["turns"]
    assert turn["trace_id"] == run


def test_a_hashed_user_is_deleted_by_the_id(collector, recorded):
    user, run = recorded
    answer = http("DELETE", f"{collector.url}/v1/users/{quote(user)}", timeout=120)

    assert (answer.status, answer.json()["traces"]) == (200, 1)
    assert http("GET", f"{collector.url}/v1/traces/{run}").status == 404
    assert found(collector, f"user={quote(user)}") == []
