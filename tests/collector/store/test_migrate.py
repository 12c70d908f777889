"""Schema migrations: applied once, resumed after an interruption, refused if incompatible."""

import json
import re

import pytest

from tests.support.contract import EXAMPLES
from tests.support.server_users import GROWING
from tracereel_collector.errors import StartupError, StoreUnavailableError
from tracereel_collector.model import Kind
from tracereel_collector.store import migrate as migrating
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.sql import migrations

RECORDS = "SELECT number, name, checksum FROM schema_migrations ORDER BY number"


class Interrupted:
    """Store that fails after a number of statements."""

    def __init__(self, store, statements):
        self._store, self._left = store, statements
        self.rows, self.address, self.running = store.rows, store.address, store.running

    def command(self, statement):
        self._count()
        self._store.command(statement)

    def change(self, statement, parameters):
        self._count()
        self._store.change(statement, parameters)

    def _count(self):
        if not self._left:
            raise StoreUnavailableError("gone")
        self._left -= 1


def is_interrupted(store, statements, known=None):
    try:
        migrate(Interrupted(store, statements), known)
    except StoreUnavailableError:
        return True
    return False


def objects(store):
    return store.rows(
        "SELECT name, engine, as_select FROM system.tables"
        " WHERE database = currentDatabase() ORDER BY name"
    )


def test_migrations_run_once_and_in_order(new_store):
    applied = migrate(new_store)

    assert applied == migrations()
    assert [each.number for each in applied] == list(range(1, len(applied) + 1))
    assert migrate(new_store) == []


def test_an_interrupted_first_start_is_completed(new_store):
    for statements in (0, 1, 30):
        assert is_interrupted(new_store, statements)

    migrate(new_store)

    assert len(new_store.rows(RECORDS)) == len(migrations())
    made = {name for name, _, _ in objects(new_store)}
    assert {"agent_events", "otel_traces", "agent_hours", "retention_rules"} <= made


def test_an_upgrade_interrupted_anywhere_is_completed(new_store, later, queued, token):
    store = new_store
    migrate(store)

    def insert(token):
        event = {**EXAMPLES[0], "parent_trace_id": "above"}
        store.insert(Kind.EVENTS, [queued(json.dumps(event).encode())], token=token)

    insert(f"{token}1")

    statements = 0
    while is_interrupted(store, statements, later):
        statements += 1

    assert statements > len(later[-1].statements)
    assert migrate(store, later) == []
    assert len(store.rows(RECORDS)) == len(later)
    after = objects(store)
    insert(f"{token}2")
    assert store.rows("SELECT sum(events) FROM event_types") == [("2",)]
    assert store.rows("SELECT sum(events) FROM run_links") == [("1",)], "what came after it"
    assert objects(store) == after


def test_a_store_of_a_newer_version_is_refused(new_store, later):
    migrate(new_store, later)

    with pytest.raises(StartupError, match=r"has migrations \[9000\] that this version"):
        migrate(new_store)


def test_a_store_of_another_development_version_is_refused_and_not_changed(new_store):
    store, (first, *_) = new_store, migrations()
    migrate(store)
    store.command("ALTER TABLE schema_migrations UPDATE checksum = 'x' WHERE number = 1")
    # As in an old store from before the single schema: more files than there are now.
    store.command("INSERT INTO schema_migrations (number, name, checksum) SELECT 35, 'old', 'x'")
    store.command("DROP TABLE retention_rules")
    before = store.rows(RECORDS), objects(store)

    with pytest.raises(StartupError) as refused:
        migrate(store)

    assert refused.value.message == (
        "the store was made with schema 0001_events (x) of a development version,"
        f" this version expects 0001_events ({first.checksum})"
    )
    assert refused.value.hint == (
        "start with a new --data-dir or database, or export with the version that wrote it"
    )
    assert (store.rows(RECORDS), objects(store)) == before


def test_server_older_than_documented_is_refused_before_anything_is_made(new_store, monkeypatch):
    oldest = ".".join(map(str, migrating.OLDEST))
    assert f"ClickHouse {oldest} or newer" in GROWING.read_text()
    monkeypatch.setattr(migrating, "OLDEST", (99, 1))

    with pytest.raises(
        StartupError, match=r"is ClickHouse 26\.\d+.*needs 99\.1 or newer"
    ) as refused:
        migrate(new_store)

    assert refused.value.hint == "upgrade ClickHouse, or use the embedded store"
    assert [name for name, *_ in objects(new_store)] == ["schema_migrations"]


def test_clauses_are_in_the_order_that_all_servers_read():
    """Servers older than August 2026 accept `COMMENT … CODEC` only; the embedded engine accepts both."""
    statements = [each for migration in migrations() for each in migration.statements]

    assert any(re.search(r"COMMENT '[^']*' CODEC\(", each) for each in statements)
    for statement in statements:
        assert not re.search(r"CODEC\(.*\)\s+COMMENT", statement), statement
