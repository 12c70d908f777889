"""Name tables: names are deleted with their last user, without expensive queries."""

import pytest

from tests.collector.store.runs_to_find import run, span, spans_request
from tests.support.contract import EXAMPLES
from tests.support.waiting import wait_until
from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.store import deletion
from tracereel_collector.store.deletion import delete_rows, runs_of
from tracereel_collector.store.shards import Shards
from tracereel_collector.store.sql import query


class Overheard:
    """Real store that records its queries."""

    def __init__(self, store):
        self._store = store
        self.asked = []

    def rows(self, statement, **parameters):
        return self._store.rows(statement, **parameters)

    def select(self, statement, parameters, *, fmt):
        self.asked.append(statement)
        return self._store.select(statement, parameters, fmt=fmt)

    def change(self, statement, parameters):
        self._store.change(statement, parameters)

    def put(self, table, data, **given):
        self._store.put(table, data, **given)


def custom(agent, trace_id="noted"):
    """Return an event that is in no rollup."""
    return {**EXAMPLES[0], "event_type": "custom.note", "event_id": agent, "agent_name": agent} | {
        "trace_id": trace_id
    }


@pytest.fixture
def agents(migrated, tenant):
    def known():
        answer = migrated.select(
            "SELECT DISTINCT agent FROM agent_hours WHERE tenant = {tenant:String} ORDER BY agent",
            {"tenant": tenant},
            fmt="TabSeparated",
        )
        return answer.decode().split()

    return known


@pytest.mark.parametrize("most", [1, 2, 5_000])
def test_agent_names_are_deleted_with_their_last_run(
    migrated, told, tenant, agents, monkeypatch, most
):
    """Independent of the number of names per query and of the agents that stay."""
    monkeypatch.setattr(deletion, "MAX_NAMES", most)
    for name in ("a", "b", "c", "d"):
        told(*run(f"of-{name}", agent=name))
    told(*run("of-a-too", agent="a"))
    told(custom("b"), custom("c"))

    delete_rows(migrated, runs_of(migrated, tenant, [f"of-{name}" for name in "abcd"]))

    assert agents() == ["a", "b", "c"]
    delete_rows(migrated, runs_of(migrated, tenant, ["of-a-too", "noted"]))
    assert agents() == []


def test_agent_names_are_not_queried_when_no_agent_was_deleted(migrated, told, tenant):
    told(*run("one"), *run("two"), *run("three", agent="other"))
    store = Overheard(migrated)

    def about_agents():
        return [each for each in store.asked if each == query("agents_with_events")]

    delete_rows(store, runs_of(migrated, tenant, ["one"]))
    assert not about_agents()
    delete_rows(store, runs_of(migrated, tenant, ["three"]))
    assert len(about_agents()) == 1


def test_span_names_are_deleted_with_their_last_span(migrated, told, spans, tenant):
    told(*run("one", agent="a"), *run("two", agent="b"))
    spans(spans_request(span(1, name="GET /eva"), span(2, name="work"), trace=b"\x01" * 16))
    spans(spans_request(span(1, name="work"), trace=b"\x02" * 16))

    def names():
        answer = migrated.select(
            "SELECT DISTINCT SpanName FROM span_names WHERE TenantId = {tenant:String}",
            {"tenant": tenant},
            fmt="TabSeparated",
        )
        return set(answer.decode().splitlines())

    assert {"GET /eva", "work", "invoke_agent a", "invoke_agent b"} <= names()
    delete_rows(migrated, runs_of(migrated, tenant, ["one", "01" * 16]))
    assert {"work", "invoke_agent b"} <= names()
    assert not names() & {"GET /eva", "invoke_agent a"}


def test_rows_that_are_still_being_deleted_are_not_subtracted_again(migrated, told, tenant):
    told(*run("slow", agent="a"))
    runs = runs_of(migrated, tenant, ["slow"])
    minutes = "SELECT sum(started) FROM agent_minutes WHERE tenant = {tenant:String}"
    counted = migrated.rows(minutes, tenant=tenant)
    assert counted != [("0",)]
    migrated.command("SYSTEM STOP MERGES agent_events")
    try:
        migrated.change(
            "ALTER TABLE agent_events DELETE"
            " WHERE tenant = {tenant:String} AND trace_id IN {ids:Array(String)}",
            {"tenant": tenant, "ids": ["slow"]},
            mutations_sync=0,
        )
        with pytest.raises(StoreUnavailableError, match="an earlier deletion is not finished"):
            delete_rows(migrated, runs)
        assert migrated.rows(minutes, tenant=tenant) == counted
    finally:
        migrated.command("SYSTEM START MERGES agent_events")
    wait_until(lambda: Shards.of(migrated).still_deletes("agent_events") == [], timeout=120)
    delete_rows(migrated, runs)


MINUTES = "SELECT sum(started) FROM agent_minutes WHERE tenant = {tenant:String}"
HOURS = "SELECT sum(started) FROM agent_hours WHERE tenant = {tenant:String}"


@pytest.fixture
def before_delete(monkeypatch):
    """Return a function that has something done once, before rows of events are deleted."""

    def set_up(act):
        acts, alter = [act], Shards.alter

        def altered(shards, name, change, parameters):
            if name == "agent_events" and acts:
                acts.pop()()
            alter(shards, name, change, parameters)

        monkeypatch.setattr(Shards, "alter", altered)

    return set_up


def sums_of(store, tenant):
    return [store.rows(sums, tenant=tenant)[0][0] for sums in (MINUTES, HOURS)]


def test_deletion_that_was_interrupted_before_it_deleted_rows_subtracts_them_once(
    migrated, told, tenant, before_delete
):
    told(*run("broken", agent="a"), *run("stays", agent="a"))
    runs = runs_of(migrated, tenant, ["broken"])
    one = str(int(sums_of(migrated, tenant)[0]) // 2)

    def interrupt():
        raise StoreUnavailableError("the shard is away")

    before_delete(interrupt)
    with pytest.raises(StoreUnavailableError, match="the shard is away"):
        delete_rows(migrated, runs)
    delete_rows(migrated, runs)

    assert sums_of(migrated, tenant) == [one, one]


def test_deletions_of_a_run_by_two_collectors_at_once_subtract_it_once(
    migrated, told, tenant, before_delete
):
    told(*run("twice", agent="a"), *run("stays", agent="a"))
    runs = runs_of(migrated, tenant, ["twice"])
    one = str(int(sums_of(migrated, tenant)[0]) // 2)
    before_delete(lambda: delete_rows(migrated, runs))

    delete_rows(migrated, runs)

    assert sums_of(migrated, tenant) == [one, one]


def test_run_that_comes_again_after_its_deletion_is_subtracted_again(migrated, told, tenant):
    for _ in range(2):
        told(*run("again", agent="a"))
        assert sums_of(migrated, tenant) == ["1", "1"]

        delete_rows(migrated, runs_of(migrated, tenant, ["again"]))

        assert sums_of(migrated, tenant) == ["0", "0"]
