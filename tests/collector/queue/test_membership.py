"""Ledgers in a change of the list of members, without processes: who may own what, and when."""

import pytest

from tracereel_collector.errors import StartupError
from tracereel_collector.group.ownership import Ownership
from tracereel_collector.queue import DurableQueue, QueueLimits

LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)


@pytest.fixture
def member(tmp_path):
    """Return a factory of queues by member name; a second call opens the same one."""
    opened = {}

    def make(name):
        if name not in opened:
            opened[name] = DurableQueue(tmp_path / name / "queue.sqlite", LIMITS)
        return opened[name]

    yield make
    for queue in opened.values():
        queue.close()


def begin(queue, name, names):
    return queue.membership.begin(name, tuple(names), Ownership(names).parts_of)


def hand_over(giver, taker, taker_name, names):
    giver.membership.note_sent()
    for page in giver.membership.pages_for(taker_name, Ownership(names).of_emitter):
        taker.membership.take(page)


def found(members, names):
    """Let new members begin with a list and become active."""
    for name in names:
        begin(members(name), name, names)
    for giver in names:
        for taker in names:
            if giver != taker:
                hand_over(members(giver), members(taker), taker, names)
    for name in names:
        assert members(name).membership.state().missing(()) == []
        members(name).membership.activate(seeded=True)


def test_a_new_group_waits_for_all_members_once(member):
    begin(member("a"), "a", "ab")
    assert member("a").membership.state().missing(()) == ["b"]
    assert not member("a").membership.state().is_active
    found(member, "ab")
    # After a restart with the same list nothing is awaited.
    assert begin(member("a"), "a", "ab").is_active


def test_the_new_owner_knows_numbers_and_digests_of_the_old_one(member, body):
    found(member, "ab")
    moving = next(
        name
        for name in (f"e{n}" for n in range(1000))
        if Ownership("ab").of_emitter("default", name) == "a"
        and Ownership("abc").of_emitter("default", name) == "c"
    )
    numbered = body(b"{}", b"{}", runs=((moving, 1, 2),))
    plain = body(b"{}")
    assert member("a").append(numbered).result().appended == 2
    assert member("a").append(plain).result().appended == 1
    for name in "abc":
        begin(member(name), name, "abc")
    assert member("c").membership.state().missing(()) == ["a", "b"]
    hand_over(member("a"), member("c"), "c", "abc")
    hand_over(member("a"), member("c"), "c", "abc")  # again, as after a lost answer
    assert member("c").membership.state().missing(()) == ["b"]
    assert member("c").append(numbered).result().duplicates == 2
    assert member("c").append(plain).result().duplicates == 1
    # Emitters of others stay where they are.
    pages = list(member("a").membership.pages_for("b", Ownership("abc").of_emitter))
    assert all(emitter != moving for page in pages for _, emitter, _, _ in page.emitters)


def test_a_member_that_leaves_is_awaited_also_by_members_that_never_knew_it(member):
    found(member, "ab")
    for name in "abc":
        begin(member(name), name, "bc")
    hand_over(member("b"), member("c"), "c", "bc")
    # `b` has reported that `a` was a member.
    assert member("c").membership.state().missing(()) == ["a"]
    assert member("c").membership.state().missing({"a"}) == []
    hand_over(member("a"), member("c"), "c", "bc")
    assert member("c").membership.state().missing(()) == []


def test_a_list_that_is_taken_back_needs_all_ledgers_again(member):
    found(member, "ab")
    begin(member("a"), "a", "abc")
    hand_over(member("a"), member("b"), "b", "abc")
    back = begin(member("a"), "a", "ab")
    assert not back.is_active
    # `c` may own its share by now: it was in a list for which this ledger was handed over.
    assert back.missing(()) == ["b", "c"]


def test_a_mistyped_list_for_which_nothing_was_handed_over_leaves_no_trace(member):
    found(member, "ab")
    begin(member("a"), "a", "abx")
    assert begin(member("a"), "a", "ab").missing(()) == ["b"]


def test_the_outbox_follows_the_list(member, body):
    found(member, "ab")
    queue = member("a")
    sent = [body(b"{}", runs=((f"e{number}", 1, 1),)) for number in range(40)]
    for each in sent:
        for owner, part in Ownership("ab").parts_of(each):
            queue.relay(part, owner=owner).result()
    before = queue.outbox.newest()
    begin(queue, "a", "abc")
    for owner in "abc":
        relays = queue.outbox.next(owner, max_relays=100, max_bytes=1 << 20).relays
        assert relays
        for relay in relays:
            assert Ownership("abc").parts_of(relay.body) == [(owner, relay.body)]
            assert owner != "c" or relay.id > before  # the new owner has never seen lower ids
    counted = queue.counters()
    assert counted["appended", "events"] == 40
    assert queue.pending_bytes == sum(len(each.data) for each in sent)


def test_a_new_disk_is_noticed(member):
    found(member, "ab")
    fresh = DurableQueue(member("a")._path.parent.parent / "new" / "queue.sqlite", LIMITS)
    try:
        begin(fresh, "a", "ab")
        hand_over(member("b"), fresh, "a", "ab")
        assert fresh.membership.state().needs_seed(())
        assert fresh.membership.state().was_replaced
    finally:
        fresh.close()


def test_a_member_that_learns_of_an_active_one_first_is_not_taken_for_replaced(member):
    """`a` becomes active between two looks and hands over afterwards."""
    for name in "ab":
        begin(member(name), name, "ab")
    hand_over(member("b"), member("a"), "a", "ab")
    member("a").membership.activate(seeded=True)
    hand_over(member("a"), member("b"), "b", "ab")
    state = member("b").membership.state()
    assert state.missing(()) == []
    assert not state.was_replaced


def test_a_data_directory_has_one_name(member):
    begin(member("a"), "a", "ab")
    with pytest.raises(StartupError, match="belongs to member 'a'"):
        begin(member("a"), "b", "ab")
    with pytest.raises(StartupError, match="expected one of x, y"):
        begin(member("z"), "z", "xy")
