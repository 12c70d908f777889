"""Retention per tenant, on real rows with many arrival days."""

import itertools
import json
import time
import uuid
from datetime import UTC, date, datetime

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry

from tests.collector.store.conftest import connect
from tracereel_collector.deliver.retention import RetentionWorker
from tracereel_collector.errors import ServiceUnavailableError
from tracereel_collector.model import Kind, Quarantined, QueuedBody
from tracereel_collector.queue import DurableQueue, QueueLimits, quarantine
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.runtime.clock import Dating, RedatedPeriod
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.retention import Limits, RetentionPolicy, rules_of, set_rule
from tracereel_collector.telemetry import RetentionMetrics

DAY = 86_400
NOW = datetime(2026, 6, 30, 12, tzinfo=UTC).timestamp()
NUMBERS = itertools.count(1)
DAILY = ("agent_events", "trace_summaries", "otel_spans", "trace_texts")


@pytest.fixture(scope="module")
def prepared(place):
    store = connect(place, f"db_{uuid.uuid4().hex}")
    migrate(store)
    yield store
    store.close()


@pytest.fixture
def site(prepared, tmp_path):
    """Empty store, a queue, and a function that runs retention at a given time."""
    for (table,) in prepared.rows(
        "SELECT name FROM system.tables WHERE database = currentDatabase()"
        " AND engine LIKE '%MergeTree' AND name != 'schema_migrations' AND total_rows > 0"
    ):
        prepared.command(f"TRUNCATE TABLE {table}")
    queue = DurableQueue(
        tmp_path / "queue" / "queue.sqlite",
        QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0),
    )
    yield Site(prepared, queue, tmp_path)
    queue.close()


class Site:
    def __init__(self, store, queue, place):
        self.store, self.queue = store, queue
        self.writers = StoreWriters(place / "queue")
        self.registry = CollectorRegistry()
        self.metrics = RetentionMetrics.register(self.registry)
        self.coming = []

    def worker(self, *, days=0, at=NOW, settled=True, redated=()):
        self.stored()
        return RetentionWorker(
            self.store,
            self.queue,
            self.writers,
            default_days=days,
            every_seconds=60,
            metrics=self.metrics,
            dating=lambda: Dating(now_nano=int(at * 1e9), is_settled=settled, redated=redated),
        )

    def arrived(self, tenant, *, days_ago, kind=Kind.EVENTS, trace="t"):
        """Return a run that arrived so many days ago."""
        number = next(NUMBERS)
        if kind is Kind.SPANS:
            request = ExportTraceServiceRequest()
            span = request.resource_spans.add().scope_spans.add().spans.add()
            span.trace_id, span.span_id = number.to_bytes(16, "big"), number.to_bytes(8, "big")
            span.name = f"span of {days_ago}"
            span.start_time_unix_nano = span.end_time_unix_nano = int(NOW) * 10**9
            data = request.SerializeToString()
        elif kind is Kind.SCORES:
            data = json.dumps(
                {
                    "trace_id": "t",
                    "id": f"s{number}",
                    "name": "good",
                    "value_type": "numeric",
                    "number": 1,
                    "updated_unix_nano": int((NOW - days_ago * DAY) * 1e9),
                }
            ).encode()
        else:
            data = json.dumps(
                {
                    "event_id": f"e{number}",
                    "event_type": "agent.execution.failed",
                    "timestamp": "2026-06-30T10:00:00Z",
                    "trace_id": f"{trace}{days_ago}",
                    "parent_trace_id": "parent",
                    "agent_name": "booker",
                    "error_message": "no slot",
                    "execution_id": f"x{number}",
                }
            ).encode()
        body = QueuedBody(
            id=number,
            kind=kind,
            tenant=tenant,
            first_sequence_number=number * 1000,
            records=1,
            received_unix_nano=int((NOW - days_ago * DAY) * 1e9),
            data=data,
        )
        self.coming.append(body)

    def stored(self):
        """Insert everything in one insert per kind, because inserts are expensive."""
        for kind in Kind:
            if bodies := [body for body in self.coming if body.kind is kind]:
                self.store.insert(kind, bodies, token=uuid.uuid4().hex)
        self.coming = []

    def ages(self, tenant, table="agent_events"):
        """Return the ages of a tenant's rows in days."""
        arrival = {"agent_events": "ingested_at", "otel_spans": "IngestedAt"}.get(table, "day")
        column = "tenant" if arrival in ("ingested_at", "day") else "TenantId"
        rows = self.store.rows(
            f"SELECT dateDiff('day', toDate({arrival}), toDate('2026-06-30')) AS age"
            f" FROM {table} WHERE {column} = '{tenant}' ORDER BY age"
        )
        return [int(age) for (age,) in rows]


def test_retention_per_tenant_with_a_collector_default(site):
    for tenant in ("short", "long", "forever", "other"):
        for days_ago in (0, 7, 8, 30, 31, 400):
            site.arrived(tenant, days_ago=days_ago)
            site.arrived(tenant, days_ago=days_ago, kind=Kind.SPANS)
    set_rule(site.store, "short", 7, by="test", now_unix_nano=time.time_ns())
    set_rule(site.store, "long", 365, by="test", now_unix_nano=time.time_ns())
    set_rule(site.store, "forever", 0, by="test", now_unix_nano=time.time_ns())

    removed = site.worker(days=30).look()

    for table in DAILY:
        assert set(site.ages("short", table)) <= {0, 7}, table
    assert site.ages("short") == [0, 7]
    assert site.ages("short", "otel_spans") == [0, 7]
    assert site.ages("short", "trace_summaries")[0] == 0
    assert site.ages("long") == [0, 7, 8, 30, 31]
    assert site.ages("forever") == [0, 7, 8, 30, 31, 400]
    assert site.ages("other") == [0, 7, 8, 30]
    counted = sum(
        sample.value
        for metric in site.registry.collect()
        for sample in metric.samples
        if sample.name == "tracereel_retention_deleted_rows_total"
    )
    assert counted == removed > 0


def test_nothing_expires_without_retention_rules(site):
    site.arrived("a", days_ago=4000)

    assert site.worker().look() == 0
    assert site.ages("a") == [4000]


def test_fully_expired_day_is_dropped_as_a_partition(site):
    site.arrived("a", days_ago=10)
    site.arrived("b", days_ago=10)
    site.arrived("a", days_ago=1)
    mutations = "SELECT count() FROM system.mutations WHERE table = 'agent_events'"
    before = site.store.rows(mutations)

    site.worker(days=5).look()

    parts = site.store.rows(
        "SELECT DISTINCT partition_id FROM system.parts WHERE database = currentDatabase()"
        " AND table = 'agent_events' AND active AND rows > 0"
    )
    assert parts == [("20260629",)]
    assert site.store.rows(mutations) == before


def test_small_tables_without_days_forget_too(site):
    for days_ago in (1, 90):
        site.arrived("a", days_ago=days_ago)
        site.arrived("a", days_ago=days_ago, kind=Kind.SPANS)
        site.arrived("a", days_ago=days_ago, kind=Kind.SCORES)

    site.worker(days=30).look()

    assert site.store.rows("SELECT trace_id FROM run_links FINAL") == [("t1",)]
    assert site.store.rows("SELECT count() FROM score_tellings FINAL") == [("1",)]
    names = site.store.rows("SELECT SpanName FROM span_names FINAL ORDER BY 1")
    assert ("span of 90",) not in names
    assert ("span of 1",) in names


def test_anonymous_rollups_are_kept_after_retention(site):
    site.arrived("a", days_ago=90)

    site.worker(days=30).look()

    assert site.ages("a") == []
    assert site.store.rows("SELECT sum(failed) FROM agent_hours") == [("1",)]


def test_expired_quarantine_entries_are_removed_and_stay_counted(site, tmp_path):
    long_ago = int((NOW - 40 * DAY) * 1e9)
    queue = DurableQueue(
        tmp_path / "other" / "queue.sqlite",
        QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0),
        now_unix_nano=lambda: long_ago,
    )
    site.queue, old = queue, site.queue
    refused = [
        Quarantined(
            kind=Kind.EVENTS,
            tenant=tenant,
            sequence_number=1,
            records=1,
            reason="no",
            data=b"{}",
            received_unix_nano=long_ago,
        )
        for tenant in ("short", "long")
    ]
    queue._writer.submit(
        lambda connection: quarantine.put(connection, refused, now=long_ago)
    ).result()
    set_rule(site.store, "long", 365, by="test", now_unix_nano=time.time_ns())

    site.worker(days=30).look()

    assert queue.quarantine.entries(tenant="short") == []
    assert len(queue.quarantine.entries(tenant="long")) == 1
    assert queue.counters()["dropped", "events"] == 1
    queue.close()
    site.queue = old


def test_a_day_that_was_done_is_not_looked_at_again_until_a_rule_changes(site):
    worker = site.worker(days=30)
    worker.look()
    site.arrived("a", days_ago=50)  # as for a record that returns from quarantine
    site.stored()

    assert worker.look() == 0
    set_rule(site.store, "b", 3, by="test", now_unix_nano=time.time_ns())
    assert worker.look() > 0
    assert site.ages("a") == []


def test_next_partition_is_dropped_on_the_next_day(site):
    site.arrived("a", days_ago=30)

    assert site.worker(days=30).look() == 0
    assert site.worker(days=30, at=NOW + DAY).look() > 0


def test_nothing_is_removed_while_a_backup_is_made(site, monkeypatch):
    monkeypatch.setattr("tracereel_collector.deliver.retention.PAUSE_SECONDS", 0.05)
    site.arrived("a", days_ago=50)
    site.stored()

    with site.writers.paused(timeout=1), pytest.raises(ServiceUnavailableError):
        site.worker(days=30).look()

    assert site.ages("a") == [50]
    assert site.worker(days=30).look() > 0


def test_latest_retention_rule_wins_and_can_be_removed(site):
    set_rule(site.store, "a", 7, by="one", now_unix_nano=time.time_ns())
    set_rule(site.store, "a", 9, by="two", now_unix_nano=time.time_ns())
    assert [(r.tenant, r.days, r.set_by) for r in rules_of(site.store)] == [("a", 9, "two")]
    assert rules_of(site.store)[0].set_at.startswith(time.strftime("%Y-", time.gmtime()))

    set_rule(site.store, "a", None, by="three", now_unix_nano=time.time_ns())
    assert rules_of(site.store) == []


def test_retention_limits_are_grouped_by_tenant():
    rules = [
        RetentionPolicy("a", 7, "", ""),
        RetentionPolicy("b", 7, "", ""),
        RetentionPolicy("c", 0, "", ""),
    ]
    limits = Limits.of(rules, default_days=30, today=date(2026, 6, 30))

    assert list(limits.groups()) == [
        (date(2026, 6, 23), ["a", "b"], True),
        (date(2026, 5, 31), ["a", "b", "c"], False),
    ]


def test_nothing_is_removed_while_a_jump_of_the_clock_is_undecided(site):
    site.arrived("a", days_ago=50)

    worker = site.worker(days=30, settled=False)

    assert worker.look() == 0
    assert site.ages("a") == [50]
    assert site.registry.get_sample_value(
        "tracereel_retention_sweeps_total", {"outcome": "clock"}
    ) == pytest.approx(1)


def test_rows_dated_too_early_by_a_held_jump_are_kept_until_they_are_really_old(site):
    """The machine was off for 100 days, then dated arrivals by the old time for a day."""
    for days_ago in (102, 101, 100, 99):
        site.arrived("a", days_ago=days_ago)
    held = RedatedPeriod(
        start_nano=int((NOW - 101 * DAY) * 1e9),
        end_nano=int((NOW - 100 * DAY) * 1e9),
        shift_nano=99 * DAY * 10**9,
    )

    site.worker(days=30, redated=(held,)).look()
    assert site.ages("a") == [100, 101]

    site.worker(days=30, at=NOW + 29 * DAY, redated=(held,)).look()
    assert site.ages("a") == [100, 101]
    site.worker(days=30, at=NOW + 30 * DAY, redated=(held,)).look()
    assert site.ages("a") == []


def test_a_rule_set_after_one_from_the_future_counts(site):
    now = time.time_ns()
    set_rule(site.store, "a", 7, by="a year ahead", now_unix_nano=now + 365 * DAY * 10**9)
    set_rule(site.store, "a", 90, by="corrected", now_unix_nano=now)

    assert [(r.days, r.set_by) for r in rules_of(site.store)] == [(90, "corrected")]
