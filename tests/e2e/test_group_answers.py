"""What is asked of any member of a group is answered for all of them."""

import pytest

from tests.e2e.test_group import PROTOBUF, emitter_of, event, numbered, trace_request
from tests.support.collector import http
from tests.support.collector_group import CollectorGroup
from tests.support.engine_store import store_on
from tests.support.sse import EventStream
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    made = CollectorGroup(
        tmp_path_factory.mktemp("group"), "abc", arguments=("--local-admin",)
    ).start()
    wait_until(lambda: all(set(made.peer_states(each).values()) == {"ok"} for each in "abc"))
    yield made
    made.close()


def delete(collector, path):
    return http("DELETE", f"{collector.url}/v1/{path}", timeout=90)


def test_a_run_is_deleted_from_the_queues_of_all_members_and_stays_deleted(group):
    a, b, c = group
    run = numbered("gone", emitter_of("c", group, "gone"), range(1, 4))
    assert b.post_events(run).json()["status"] == "stored"
    answer = delete(a, "traces/gone")
    assert answer.status == 200, answer.body
    assert answer.json()["rows"]["agent_events"] == 3
    # Late records are rejected by their owner, whichever member they come through.
    late = numbered("gone", emitter_of("c", group, "gone"), range(4, 6))
    other = numbered("gone", emitter_of("b", group, "gone"), range(1, 3))
    for each in (a, b, c):
        assert each.post_events([*late, *other], wait=False).status == 200
    group.settle()
    assert not [name for name in group.stored_events() if name.startswith("gone/")]
    assert b.replay("gone").status == 404


def test_a_user_is_deleted_while_a_member_holds_pending_data(group):
    a, b, _ = group
    emitter = emitter_of("b", group, "user")
    events = [
        event(f"user-{number}/1", user_id="someone", emitter_id=emitter, emitter_seq=number)
        for number in range(1, 4)
    ]
    a.post_events(events, wait=False)
    b.post_events([event("user-9/1", user_id="someone else")])
    answer = delete(group["c"], "users/someone")
    assert answer.status == 200, answer.body
    group.settle()
    left = [name for name in group.stored_events() if name.startswith("user-")]
    assert left == ["user-9/1"]


def test_a_deletion_names_the_member_that_does_not_answer_and_can_be_repeated(group):
    a, b, c = group
    a.post_events(numbered("kept", emitter_of("a", group, "kept"), range(1, 4)))
    c.kill()
    answer = delete(a, "traces/kept")
    assert answer.status == 503
    assert "member c" in answer.json()["error"]["message"]
    c.start()
    assert delete(b, "traces/kept").status == 200
    assert a.replay("kept").status == 404


def test_spans_of_a_deleted_run_are_rejected_by_every_member(group):
    a, b, _ = group
    body = trace_request("deleted-span").SerializeToString()
    assert http("POST", f"{a.url}/v1/traces", body, PROTOBUF).status == 200
    group.settle(kinds=("spans",))
    trace = b"deleted-span".ljust(16, b"\1").hex()
    answer = delete(b, f"traces/{trace}")
    assert answer.status == 200, answer.body
    late = trace_request("deleted-span")
    late.resource_spans[0].scope_spans[0].spans[0].name = "late"
    for each in group:
        assert (
            http("POST", f"{each.url}/v1/traces", late.SerializeToString(), PROTOBUF).status == 200
        )
    group.settle(kinds=("spans",))
    ((rows,),) = group.rows(f"SELECT count() FROM otel_spans WHERE TraceId = '{trace}'")
    assert int(rows) == 0


def test_completeness_emitters_and_retention_are_the_same_at_every_member(group):
    sent = numbered("known", emitter_of("c", group, "known"), [1, 2, 5])
    run = [{**each, "trace_seq": each["emitter_seq"]} for each in sent]
    assert group["a"].post_events(run).json()["status"] == "stored"
    assert http("POST", f"{group['b'].url}/v1/retention", b'{"days": 900}').status == 200
    try:
        for path in ("traces/known/completeness", "emitters", "retention"):
            answers = [http("GET", f"{each.url}/v1/{path}") for each in group]
            assert {answer.status for answer in answers} == {200}, path
            first, *others = [answer.json() for answer in answers]
            assert others == [first] * 2, path
            if path == "retention":
                assert first["days"] == 900
            if path.startswith("traces/"):
                assert first["missing"] == 2, first
    finally:
        assert http("DELETE", f"{group['c'].url}/v1/retention").status == 200


def test_the_quarantine_of_all_members_is_listed_retried_and_dropped_through_any(group):
    store = store_on(group.engine)
    store.change(
        "ALTER TABLE agent_events ADD CONSTRAINT harmless CHECK event_id NOT LIKE 'poison%'", {}
    )
    try:
        for owner in "abc":
            emitter = emitter_of(owner, group, "poison")
            group["a"].post_events(numbered(f"poison-{owner}", emitter, [1, 2]), wait=False)
        wait_until(lambda: len(entries(group["b"])) == 6, timeout=60)
    finally:
        store.change("ALTER TABLE agent_events DROP CONSTRAINT harmless", {})
        store.close()
    # Pages of any member are pages of the same list.
    listed = entries(group["c"])
    assert listed == entries(group["b"])
    first = http("GET", f"{group['a'].url}/v1/quarantine?limit=4").json()
    second = http("GET", f"{group['a'].url}/v1/quarantine?limit=4&before={first['next']}").json()
    assert first["entries"] + second["entries"] == listed
    assert second["next"] is None

    shown = [
        http("GET", f"{group['b'].url}/v1/quarantine/{each['id']}").json()["data"]
        for each in listed
    ]
    assert {text.split('"')[3] for text in shown} == {
        f"poison-{owner}/{number}" for owner in "abc" for number in (1, 2)
    }
    dropped, *retried = listed
    url = f"{group['b'].url}/v1/quarantine"
    assert http("DELETE", f"{url}/{dropped['id']}").json()["status"] == "dropped"
    for each in retried:
        assert http("POST", f"{url}/{each['id']}/retry").json()["status"] == "queued"
    assert http("POST", f"{url}/{dropped['id']}/retry").status == 404
    group.settle()
    assert len([name for name in group.stored_events() if name.startswith("poison-")]) == 5
    group["c"].kill()
    assert http("GET", f"{group['a'].url}/v1/quarantine").json()["not_reached"] == ["c"]
    group["c"].start()


def entries(collector):
    return http("GET", f"{collector.url}/v1/quarantine").json()["entries"]


def test_a_live_stream_of_any_member_shows_the_records_of_all_and_can_be_resumed(group):
    emitters = {owner: emitter_of(owner, group, "live") for owner in "abc"}

    def send(number):
        for owner, emitter in emitters.items():
            group["b"].post_events(numbered(f"live-{owner}", emitter, [number]), wait=False)

    def seen(stream):
        return sorted(
            message.data["details"]["event_id"]
            for message in stream.messages
            if message.name not in ("gap", "end")
        )

    assert http("GET", f"{group['a'].url}/v1/tail?after=nonsense").status == 400
    url = f"{group['a'].url}/v1/tail?type=custom.group"
    with EventStream(url) as stream:
        wait_until(lambda: stream.last_id.count("~") == 2)
        send(1)
        wait_until(lambda: len(seen(stream)) == 3)
    assert seen(stream) == ["live-a/1", "live-b/1", "live-c/1"]
    send(2)
    with EventStream(url, headers={"Last-Event-ID": stream.last_id}) as resumed:
        wait_until(lambda: len(seen(resumed)) == 3)
        group["c"].kill()
        wait_until(lambda: [m.data["member"] for m in resumed.messages if m.name == "gap"] == ["c"])
        group["c"].start()
        group.settle()
        send(3)
        wait_until(lambda: len(seen(resumed)) == 6)
    assert seen(resumed) == sorted(f"live-{owner}/{n}" for owner in "abc" for n in (2, 3))
