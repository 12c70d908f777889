"""Members come, go and are lost under load: nothing acknowledged is lost, nothing is doubled."""

import shutil
from collections import Counter

import pytest

from tests.e2e.test_group import emitter_of, numbered
from tests.support.collector import http
from tests.support.collector_group import CollectorGroup, GroupOracles
from tests.support.conservation import conserved, conserved_group
from tests.support.waiting import wait_until


@pytest.fixture
def group(tmp_path):
    made = CollectorGroup(tmp_path, "abc")
    yield made
    made.close()


def all_events_of(group, run):
    return {name: times for name, times in group.stored_events().items() if f"{run}/" in name}


@pytest.mark.fault
@pytest.mark.timeout(600)
def test_a_member_is_added_and_another_removed_under_load(group):
    group.set_members("ab")
    group.start("ab")
    group.await_active("ab")
    sent = numbered("moved", "moved", range(1, 11))
    assert group["a"].post_events(sent).json()["status"] == "stored"
    oracles = GroupOracles(group, "changes", 7, names="ab")

    # One after the other gets the new list; what is sent meanwhile is acknowledged and waits.
    group.set_members("abc")
    group["c"].start()
    assert group.state_of("c") == "waiting"
    group["a"].stop()
    group["a"].start()
    target = oracles.count + 200
    wait_until(lambda: oracles.count >= target, timeout=60)
    assert group.state_of("a") == "waiting"
    group["b"].stop()
    group["b"].start()
    group.await_active("abc")
    # The new owner, whichever member it is, knows what was stored before.
    for each in group:
        again = each.post_events(sent).json()
        assert (again["accepted"], again["duplicates"]) == (0, 10)

    # A member that leaves hands its ledger over, delivers what it has, and can be stopped.
    group.set_members("bc")
    for name in "bca":
        group[name].stop()
        group[name].start()
    group.await_active("bc")
    assert group.state_of("a") == "leaving"
    for each in group:
        again = each.post_events(sent).json()
        assert (again["accepted"], again["duplicates"]) == (0, 10)
    target = oracles.count + 200
    wait_until(lambda: oracles.count >= target, timeout=60)
    assert oracles.finish() == 0
    group.settle()
    acknowledged = oracles.acknowledged() + Counter(each["event_id"] for each in sent)
    assert group.stored_events() == acknowledged
    conserved_group(group)


@pytest.mark.fault
@pytest.mark.timeout(600)
def test_a_lost_owner_is_replaced_without_doubling_what_it_has_stored(group):
    group.start()
    group.await_active("abc")
    emitter = emitter_of("c", group, "lost")
    stored = numbered("lost", emitter, [*range(1, 6), *range(8, 11)])
    assert group["c"].post_events(stored).json()["status"] == "stored"
    group["c"].kill()
    waiting = numbered("lost", emitter, range(11, 14))
    assert group["a"].post_events(waiting, wait=False).status == 200

    group.set_members("ab", TRACEREEL_LOST_PEERS="c")
    for name in "ab":
        group[name].stop()
    group.restart("ab")
    group.await_active("ab")
    # A resend of everything, with what was in the gap.
    again = group["b"].post_events(numbered("lost", emitter, range(1, 11))).json()
    assert (again["accepted"], again["duplicates"]) == (2, 8)
    group.settle()
    assert all_events_of(group, "lost") == {f"lost/{number}": 1 for number in range(1, 14)}
    for name in "ab":
        conserved(group[name])

    # The lost member comes back with its old disk: it may not own anything.
    group.set_members("abc", TRACEREEL_LOST_PEERS="")
    group["c"].start(wait=False)
    assert group["c"].process.wait(timeout=60) == 2
    assert any("says that this member is lost" in line for line in group["c"].output)


@pytest.mark.fault
def test_a_member_with_a_new_disk_waits_until_the_loss_is_confirmed(group, tmp_path):
    group.start()
    group.await_active("abc")
    emitter = emitter_of("b", group, "disk")
    sent = numbered("disk", emitter, range(1, 6))
    assert group["a"].post_events(sent).json()["status"] == "stored"
    group["b"].kill()
    shutil.rmtree(tmp_path / "b" / "queue")
    group["b"].start()
    wait_until(lambda: any("member_without_its_ledger" in line for line in group["b"].output))
    assert group.state_of("b") == "waiting"
    group["b"].stop()
    group["b"].environ["TRACEREEL_LOST_PEERS"] = "b"
    group["b"].start()
    group.await_active("b")
    again = group["c"].post_events(sent).json()
    assert (again["accepted"], again["duplicates"]) == (0, 5)


def test_a_data_directory_belongs_to_one_member(group):
    group.set_members("ab")
    group.start("ab")
    group["a"].stop()
    for environ, reason in (
        ({"TRACEREEL_NAME": "c"}, "belongs to member 'a'"),
        ({"TRACEREEL_PEERS": ""}, "belongs to member 'a'"),
    ):
        before = dict(group["a"].environ)
        group["a"].environ.update(environ)
        group["a"].start(wait=False)
        assert group["a"].process.wait(timeout=60) == 2
        wait_until(lambda reason=reason: any(reason in line for line in group["a"].output))
        group["a"].environ = before
    assert http("GET", f"{group['b'].url}/readyz").status == 200
