"""Runs that an older version stored have in lists the costs that the others have."""

import itertools
import json
import uuid
from datetime import UTC, datetime

import pytest

from tests.collector.store.conftest import RECEIVED, TABLES, connect, insert_body
from tests.collector.store.runs_to_find import NOW, at, span, spans_request
from tests.collector.store.test_costs_of_runs import PRICES, calls, used
from tests.collector.store.test_prices import CALL as UNPRICED
from tracereel_collector.deliver.backfill import BackfillWorker
from tracereel_collector.errors import StoreUnavailableError, UnavailableError
from tracereel_collector.model import Kind
from tracereel_collector.query.agents import Agents
from tracereel_collector.query.search import Question, Search
from tracereel_collector.query.window import parse_window
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.store import backfill
from tracereel_collector.store import migrate as migration
from tracereel_collector.store.backfill import RUN_COSTS
from tracereel_collector.store.deletion import delete_rows, runs_of
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.prices import load_prices, parse
from tracereel_collector.store.sql import migrations

NUMBERS = itertools.count(1)
ARRIVAL = datetime.fromtimestamp(RECEIVED // 10**9, UTC).date()
DAY = 86_400 * 10**9
CALL = {**UNPRICED, "gen_ai.agent.name": "theirs"}
ROWS = (
    "SELECT trace_id, sum(events), sum(spans), min(started), max(ended), min(confidence),"
    " sumMap(call_unpriced), sumMap(span_unpriced) FROM trace_summaries GROUP BY trace_id ORDER BY 1"
)


class Site:
    """A store, and what happens to it."""

    def __init__(self, store, place):
        self.store = store
        self.writers = StoreWriters(place)

    def tell(self, *events, received=RECEIVED):
        data = b"\n".join(json.dumps(each).encode() for each in events)
        insert_body(
            self.store, Kind.EVENTS, data, len(events), "default", NUMBERS, received=received
        )

    def tell_spans(self, *spans, trace):
        request = spans_request(*spans, trace=trace)
        insert_body(self.store, Kind.SPANS, request, 1, "default", NUMBERS)

    def worker(self, store=None, **more):
        return BackfillWorker(store or self.store, self.writers, **more)

    def agents(self, *, hours):
        """What each agent cost, out of the sums by hours or by minutes."""
        window = parse_window(at(-7200), at(7200), now=NOW)
        found = json.loads(
            Agents(self.store).list_document("default", window, points=1 if hours else 240, limit=9)
        )
        assert found["step_seconds"] % 3600 == (0 if hours else 60)
        return {
            each["agent"]: each["cost_usd"] and round(each["cost_usd"], 6)
            for each in found["agents"]
            if each["model_calls"]
        }

    def costs(self):
        found = Search(self.store, lambda: NOW).answer("default", Question())["traces"]
        return {each["trace_id"]: each["cost_usd"] and round(each["cost_usd"], 6) for each in found}


@pytest.fixture(scope="module")
def prepared(engine):
    store = connect(engine, f"db_{uuid.uuid4().hex}")
    migrate(store)
    load_prices(store, parse(PRICES, name="own"))
    yield store
    store.close()


@pytest.fixture
def upgraded(prepared, tmp_path):
    """Runs of before and after the upgrade, and of both."""
    for table in (*TABLES, "backfills"):
        if table != "model_prices":
            prepared.command(f"TRUNCATE TABLE {table}")
    site = Site(prepared, tmp_path)
    old_runs(site)
    # What the rows of an older version have in columns that were added since.
    prepared.command(
        "ALTER TABLE trace_summaries UPDATE call_unpriced = map(), span_unpriced = map()"
        " WHERE 1 SETTINGS mutations_sync = 2"
    )
    for table in ("agent_minutes", "agent_hours"):
        prepared.command(
            f"ALTER TABLE {table} UPDATE unpriced_tokens = map() WHERE 1 SETTINGS mutations_sync = 2"
        )
    new_runs(site)
    return site


def old_runs(site):
    site.tell(
        *calls("old", used(1000, 100, agent_name="ann")),
        *calls("sent", used(1000, 100, llm_cost_usd=0.5)),
        *calls("mixed", used(500, 5, llm_cost_usd=0.25), used(1000, 100)),
        *calls("both", used(1000, 0, agent_name="ann")),
    )
    site.tell(*calls("older", used(1000, 0, agent_name="bob")), received=RECEIVED - DAY)
    site.tell_spans(span(1), span(2, parent=1, **CALL), trace=b"\xcd" * 16)


def new_runs(site):
    more = [
        {**each, "event_id": f"{each['event_id']}-2"}
        for each in calls("both", used(2000, 0, agent_name="ann"))
    ]
    called = [each for each in more if each["event_type"] == "agent.llm.called"]
    site.tell(*called, *calls("new", used(1000, 0)))


BEFORE = {
    "old": None,
    "older": None,
    "sent": 0.5,
    "mixed": 0.25,
    "both": 0.02,
    "cd" * 16: None,
    "new": 0.01,
}
AFTER = {
    "old": 0.012,
    "older": 0.01,
    "sent": 0.5,
    "mixed": 0.262,
    "both": 0.03,
    "cd" * 16: 0.012,
    "new": 0.01,
}
AGENTS_BEFORE = {"ann": 0.02, "bob": None, "theirs": None}
AGENTS_AFTER = {"ann": 0.042, "bob": 0.01, "theirs": 0.012}


def test_runs_of_an_older_version_have_their_cost_and_nothing_else_of_them_changes(
    new_store, tmp_path, monkeypatch
):
    site = Site(new_store, tmp_path)
    monkeypatch.setattr(migration, "migrations", lambda: [m for m in migrations() if m.number < 32])
    migrate(new_store)
    old_runs(site)
    monkeypatch.undo()
    migrate(new_store)
    load_prices(new_store, parse(PRICES, name="own"))
    new_runs(site)
    assert site.costs() == BEFORE
    assert site.agents(hours=True) == site.agents(hours=False) == AGENTS_BEFORE
    before = [row[:6] for row in new_store.rows(ROWS)]

    assert site.worker().look() == 3

    assert site.costs() == AFTER
    assert site.agents(hours=True) == site.agents(hours=False) == AGENTS_AFTER
    assert [row[:6] for row in new_store.rows(ROWS)] == before


def test_it_is_done_once(upgraded):
    worker = upgraded.worker()
    worker.look()
    after = upgraded.store.rows(ROWS)

    assert worker.look() == 0
    assert upgraded.worker().look() == 0
    # Should the note of it be lost, nothing is counted twice either.
    upgraded.store.command("TRUNCATE TABLE backfills")
    assert upgraded.worker().look() == 3
    assert upgraded.store.rows(ROWS) == after
    upgraded.store.command("OPTIMIZE TABLE trace_summaries FINAL")
    assert upgraded.store.rows(ROWS) == after
    for hours in (True, False):
        assert upgraded.agents(hours=hours) == AGENTS_AFTER


def test_hours_that_were_not_filled_with_their_minutes_are(upgraded):
    store, view = upgraded.store, "agent_minutes_to_agent_hours"
    store.command(f"DETACH TABLE {view}")
    upgraded.worker(Failing(store, 3, is_silent=True)).look()
    store.command(f"ATTACH TABLE {view}")
    assert upgraded.agents(hours=False) == AGENTS_AFTER
    assert upgraded.agents(hours=True) == AGENTS_BEFORE

    store.command("TRUNCATE TABLE backfills")
    upgraded.worker().look()

    assert upgraded.agents(hours=True) == AGENTS_AFTER


def test_a_run_that_was_forgotten_before_its_agents_were_filled_in_is_forgotten(upgraded):
    store = upgraded.store
    delete_rows(store, runs_of(store, "default", ["old"]))

    upgraded.worker().look()

    for hours in (True, False):
        assert upgraded.agents(hours=hours) == {**AGENTS_AFTER, "ann": 0.03}


class Failing:
    """A store that is gone after so many fillings, or that forgets the rest of them."""

    def __init__(self, store, fillings, *, is_silent=False):
        self._store, self._left, self._is_silent = store, fillings, is_silent
        self.rows, self.select, self.change = store.rows, store.select, store.change

    def fill(self, statement, parameters, *, name):
        if not self._left and self._is_silent:
            return
        if not self._left:
            raise StoreUnavailableError("gone")
        self._left -= 1
        self._store.fill(statement, parameters, name=name)


def interrupted(site, fillings):
    site.store.command("TRUNCATE TABLE backfills")
    try:
        site.worker(Failing(site.store, fillings), slice_rows=8).look()
    except StoreUnavailableError:
        return True
    return False


def test_interrupted_anywhere_it_goes_on(upgraded):
    fillings = 0
    while interrupted(upgraded, fillings):
        fillings += 1

    assert fillings > 5
    assert upgraded.costs() == AFTER
    assert upgraded.agents(hours=True) == upgraded.agents(hours=False) == AGENTS_AFTER


def test_what_is_stored_but_not_summed_up_yet_is_left_to_its_insert(upgraded):
    """As a crash between the two leaves it: when the batch is sent again, it is summed up."""
    store = upgraded.store
    views = ("agent_events_to_trace_summaries", "agent_events_to_agent_minutes")
    for view in views:
        store.command(f"DETACH TABLE {view}")
    upgraded.tell(*calls("old", used(5000, 0, agent_name="ann"), used(5000, 0)))
    for view in views:
        store.command(f"ATTACH TABLE {view}")

    upgraded.worker().look()

    assert upgraded.costs() == {**AFTER, "old": None}
    assert upgraded.agents(hours=False) == {**AGENTS_AFTER, "ann": AGENTS_BEFORE["ann"]}


def test_a_day_that_goes_on_is_looked_at_again_when_it_is_over(upgraded):
    store = upgraded.store
    noon = datetime(ARRIVAL.year, ARRIVAL.month, ARRIVAL.day, 12, tzinfo=UTC).timestamp()
    worker = upgraded.worker(now=lambda: noon)
    worker.look()

    assert upgraded.costs() == AFTER
    assert list(RUN_COSTS.missing(store)) == [str(ARRIVAL)]
    assert upgraded.worker(now=lambda: noon + 86_400).look() == 2
    assert RUN_COSTS.missing(store) == {}
    assert upgraded.costs() == AFTER


def test_days_after_the_upgrade_are_not_looked_at(upgraded):
    upgraded.tell(*calls("later", used(1000, 0)), received=2 * 10**18)

    assert sorted(RUN_COSTS.missing(upgraded.store)) == ["2026-01-22", "2026-01-23"]


def test_while_a_backup_is_made_it_waits(upgraded, monkeypatch):
    monkeypatch.setattr("tracereel_collector.deliver.backfill.PAUSE_SECONDS", 0.1)
    with upgraded.writers.paused(timeout=5), pytest.raises(UnavailableError, match="backup"):
        upgraded.worker().look()
    assert upgraded.costs() == BEFORE


def test_while_rows_are_removed_it_waits_and_they_wait_for_it(upgraded, monkeypatch):
    """A run that is removed while its sum is filled in would be there again."""
    monkeypatch.setattr("tracereel_collector.deliver.backfill.PAUSE_SECONDS", 0.1)
    with upgraded.writers.removing(timeout=5), upgraded.writers.removing(timeout=5) as may_remove:
        assert may_remove
        with pytest.raises(UnavailableError, match="removed"):
            upgraded.worker().look()
    with (
        upgraded.writers.filling(timeout=5),
        upgraded.writers.removing(timeout=0.1) as may_remove,
    ):
        assert not may_remove
    assert upgraded.costs() == BEFORE


def test_a_cluster_is_left_alone(upgraded, monkeypatch):
    monkeypatch.setattr(
        backfill, "SHARDED", "SELECT 'trace_summaries', 'trace_summaries_local', 'main'"
    )
    assert upgraded.worker().look() == 0
    assert upgraded.costs() == BEFORE
