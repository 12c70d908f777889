"""Members of a group: who they know, and whom they let in."""

import pytest

from tests.support.collector import http
from tests.support.collector_group import CollectorGroup
from tests.support.waiting import wait_until
from tracereel_collector.group.members import LIST_HEADER, SECRET_HEADER


@pytest.fixture
def group(tmp_path):
    made = CollectorGroup(tmp_path, "ab")
    yield made
    made.close()


def test_members_know_each_other_and_report_problems(group):
    group["b"].environ["TRACEREEL_PEERS"] += ",c=http://127.0.0.1:9"
    group.start()
    wait_until(lambda: group.peer_states("a") == {"b": "other_members"})
    wait_until(lambda: group.peer_states("b") == {"a": "other_members", "c": "no_answer"})
    group["b"].kill()
    wait_until(lambda: group.peer_states("a") == {"b": "no_answer"})
    group["b"].environ["TRACEREEL_PEERS"] = group.peers
    group["b"].start()
    wait_until(lambda: group.peer_states("a") == {"b": "ok"})
    wait_until(lambda: group.peer_states("b") == {"a": "ok"})

    hello = f"{group['a'].url}/v1/group/hello"
    assert http("GET", hello).status == 401
    assert http("GET", hello, headers={SECRET_HEADER: "x" * 30}).status == 401
    secret = group["a"].environ["TRACEREEL_GROUP_SECRET"]
    answer = http("GET", hello, headers={SECRET_HEADER: secret, LIST_HEADER: "another"}).json()
    assert answer["name"] == "a"
    assert answer["members"] == ["a", "b"]


def test_a_collector_without_a_group_has_no_group_routes(collector):
    assert http("GET", f"{collector.url}/v1/group/hello").status == 404
    assert "group" not in http("GET", f"{collector.url}/readyz").json()
