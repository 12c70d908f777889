"""A group whose members have several workers each: the same service as with one."""

import os
import random
from collections import Counter

import pytest

from tests.e2e.test_group import emitter_of, numbered
from tests.e2e.test_workers import workers_of
from tests.support.collector import http
from tests.support.collector_group import CollectorGroup, GroupOracles
from tests.support.conservation import conserved_group
from tests.support.keys import make_key
from tests.support.waiting import wait_until

AGAIN = 12
"""Requests to each member: each has a connection of its own, so that all workers get some."""


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    made = CollectorGroup(
        tmp_path_factory.mktemp("group"), "ab", arguments=("--workers", "2", "--local-admin")
    ).start()
    wait_until(lambda: all(set(made.peer_states(each).values()) == {"ok"} for each in "ab"))
    yield made
    made.close()


def test_events_count_once_whichever_worker_and_member_takes_them(group):
    emitter = emitter_of("b", group, "workers")
    events = numbered("workers", emitter, range(1, 6))
    answers = [each.post_events(events).json() for _ in range(AGAIN) for each in group]

    assert sum(answer["accepted"] for answer in answers) == len(events)
    assert {answer["status"] for answer in answers} == {"stored"}
    found = {name: times for name, times in group.stored_events().items() if "workers/" in name}
    assert found == {f"workers/{number}": 1 for number in range(1, 6)}


def test_relayed_body_is_awaited_and_numbered_by_any_worker(group):
    emitter = emitter_of("a", group, "awaited")
    for number in range(1, AGAIN + 1):
        answer = group["b"].post_events(numbered("awaited", emitter, [number])).json()
        assert (answer["accepted"], answer["status"]) == (1, "stored")
        stored = group.rows(
            f"SELECT sequence_number FROM agent_events WHERE event_id = 'awaited/{number}'"
        )
        assert stored == [(str(answer["first_sequence_number"]),)]


def test_deletion_reaches_the_queues_of_all_members_through_any_worker(group):
    for number in range(4):
        run = f"gone-{number}"
        for owner in "ab":
            events = numbered(run, emitter_of(owner, group, run), range(1, 4))
            assert group["a"].post_events(events, wait=False).status == 200
        answer = http("DELETE", f"{group['b'].url}/v1/traces/{run}", timeout=60)
        assert (answer.status, answer.json()["status"]) == (200, "deleted"), answer.body
        late = numbered(run, emitter_of("a", group, run), range(4, 6))
        assert group["a"].post_events(late, wait=False).status == 200
    group.settle()
    assert not [name for name in group.stored_events() if name.startswith("gone-")]


@pytest.mark.fault
def test_killed_workers_and_members_lose_and_double_nothing(tmp_path):
    seed = int(os.environ.get("TRACEREEL_GROUP_SEED", "0")) or random.SystemRandom().randrange(
        1, 10**6
    )
    rnd = random.Random(seed)
    group = CollectorGroup(tmp_path, "ab", arguments=("--workers", "2")).start()
    try:
        oracles = GroupOracles(group, f"workers{seed}", seed)
        for each in (*group, rnd.choice(list(group))):
            target = oracles.count + rnd.randint(1, 300)
            wait_until(lambda target=target: oracles.count >= target, timeout=180)
            rnd.choice(workers_of(each)).kill()
        each.kill()
        each.start()
        target = oracles.count + 300
        wait_until(lambda: oracles.count >= target, timeout=180)
        assert oracles.finish() == 0, f"seed {seed}"
        group.settle()
        acknowledged, stored = oracles.acknowledged(), group.stored_events()
        assert acknowledged.total() > 0
        assert (acknowledged - stored, stored - acknowledged) == (Counter(), Counter()), seed
        assert conserved_group(group)["relayed"] > 0
    finally:
        group.close()


def test_keys_and_logins_hold_at_every_worker(tmp_path):
    group = CollectorGroup(tmp_path, "ab", arguments=("--workers", "2"))
    try:
        group.start()
        a, b = group

        def statuses(**headers):
            asked = [each.url for _ in range(AGAIN) for each in group]
            return {http("GET", f"{url}/v1/traces", headers=headers).status for url in asked}

        admin = make_key(a.data_dir, scope="admin,read,write")["key"]
        wait_until(lambda: statuses() == {401}, message="the key has closed all workers")
        assert statuses(**{"x-api-key": admin}) == {200}
        made = http("POST", f"{b.url}/v1/keys", b"{}", {"x-api-key": admin}).json()
        assert "not_reached" not in made
        wait_until(lambda: statuses(**{"x-api-key": made["key"]}) == {200})
        http("DELETE", f"{a.url}/v1/keys/{made['id']}", headers={"x-api-key": admin})
        wait_until(lambda: statuses(**{"x-api-key": made["key"]}) == {401})
        login = http("POST", f"{a.url}/v1/login", b"", {"x-api-key": admin})
        cookie = login.headers["set-cookie"].split(";")[0]
        assert statuses(cookie=cookie) == {200}
        assert http("POST", f"{b.url}/v1/logout", b"", {"cookie": cookie}).json() == {}
        assert statuses(cookie=cookie) == {401}
    finally:
        group.close()
