"""Migration of a store to this version's schema: each file once on every node, in order.

While views change, the tables that bodies are inserted into are detached on every node: an insert then
fails and is repeated later, instead of passing views that are away. `DETACH … SYNC` waits for inserts
that have begun. One process at a time does this: it lets a query with a known id run on the first node.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from tracereel_collector.errors import (
    PermanentError,
    StartupError,
    StoreUnavailableError,
    UnknownRefusalError,
)
from tracereel_collector.store.clickhouse import (
    DOORS,
    AlreadyRunningError,
    ClickHouseStore,
    MissingRightError,
)
from tracereel_collector.store.cluster import Node
from tracereel_collector.store.sql import Migration, migrations, query, without_comments

OLDEST: Final = (26, 3)
"""Oldest ClickHouse that has what the schema and its inserts need. See docs/adr/020."""
TURN_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.1
_MAKES_DOORS: Final = "doors"
_OF_ROWS: Final = ("INSERT", "TRUNCATE")
"""First words of statements that change rows: replicas share them, so one per shard runs them."""

MigrationProgress = Callable[[Node, str], None]
"""Callback with a node and the work that was done on it."""


def migrate(store: ClickHouseStore, known: Sequence[Migration] | None = None) -> list[Migration]:
    """Apply the missing migrations to one server, by default those of the package; return them.

    Raises:
        StartupError: the server refuses the schema, or has that of another version.
    """
    known = migrations() if known is None else known
    return migrate_nodes([Node(1, 1, store)], known, report=lambda _node, _what: None)


def migrate_nodes(
    nodes: Sequence[Node], known: Sequence[Migration], *, report: MigrationProgress
) -> list[Migration]:
    """Apply the migrations that are missing on any node; return them. Can be repeated at any point.

    Raises:
        StartupError: a node refuses the schema, or has that of another version.
        StoreUnavailableError: a node does not answer.
    """
    if _is_complete(_states(nodes, known), known):
        return []
    with _turn(nodes[0].store):
        states = _states(nodes, known)
        # Another process may have done it meanwhile.
        return [] if _is_complete(states, known) else _migrate(states, known, report)


def _states(nodes: Sequence[Node], known: Sequence[Migration]) -> list["NodeSchema"]:
    states = [NodeSchema.of(node) for node in nodes]
    for state in states:
        state.refuse_old_server()
        state.refuse_other_schema(known)
    return states


def _is_complete(states: Sequence["NodeSchema"], known: Sequence[Migration]) -> bool:
    return not any(state.missing(known) or state.is_closed for state in states)


@contextmanager
def _turn(store: ClickHouseStore) -> Iterator[None]:
    """Change the schema while no other process does; wait some seconds for one that was killed.

    Raises:
        StoreUnavailableError: another one does.
    """
    if store.address.is_own:
        yield
        return
    name = f"tracereel-schema-{store.address.database}"
    deadline = time.monotonic() + TURN_SECONDS
    with ExitStack() as turn:
        while True:
            try:
                turn.enter_context(store.running(query("endless"), query_id=name))
                break
            except AlreadyRunningError as error:
                if time.monotonic() > deadline:
                    raise StoreUnavailableError(
                        f"another process changes the schema of {store.address.database!r}"
                    ) from error
            time.sleep(LOOK_SECONDS)
        yield


def _migrate(
    states: Sequence["NodeSchema"], known: Sequence[Migration], report: MigrationProgress
) -> list[Migration]:
    missing = [each for each in known if any(each.number not in s.applied for s in states)]
    for state in states:
        if state.has_doors:
            for door in DOORS:
                _run(state.node, f"DETACH TABLE IF EXISTS {door} PERMANENTLY SYNC", "the doors")
            report(state.node, "inserts wait")
    for migration in missing:
        _apply(migration, states, report)
    for node in [state.node for state in states]:
        for door in DOORS:
            _run(node, f"ATTACH TABLE IF NOT EXISTS {door}", "the doors")
        report(node, "takes inserts")
    return missing


def applied_migrations(store: ClickHouseStore) -> list[int]:
    """Return the numbers of the applied migrations."""
    return sorted(NodeSchema.read(Node(1, 1, store)).applied)


@dataclass(frozen=True, slots=True)
class NodeSchema:
    """Parts of the schema that a node has."""

    node: Node
    applied: dict[int, tuple[str, str]]
    """Name and checksum of each migration, by number."""
    doors: frozenset[str]
    """Tables that inserts go to, as far as they are attached."""

    @property
    def has_doors(self) -> bool:
        """Return whether inserts may have come: the tables for them are made last."""
        return any(name == _MAKES_DOORS for name, _ in self.applied.values())

    @property
    def is_closed(self) -> bool:
        """Return whether a migration has detached tables that inserts go to."""
        return self.has_doors and self.doors < frozenset(DOORS)

    @classmethod
    def of(cls, node: Node) -> "NodeSchema":
        """Read it; the node's database must exist."""
        _run(node, query("create_schema_migrations"), "the list of migrations")
        return cls.read(node)

    @classmethod
    def read(cls, node: Node) -> "NodeSchema":
        """Read it from a database with a list of migrations."""
        rows = node.store.rows("SELECT number, name, checksum FROM schema_migrations ORDER BY 1")
        there = node.store.rows(query("tables_there"), names=list(DOORS))
        return cls(
            node,
            {int(number): (name, checksum) for number, name, checksum in rows},
            frozenset(name for (name,) in there),
        )

    def refuse_old_server(self) -> None:
        """Raise StartupError for a server that is too old."""
        version = self.node.store.rows("SELECT version()")[0][0]
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
            raise StartupError(
                f"{self.node.address} is ClickHouse {version}; the schema needs"
                f" {'.'.join(map(str, OLDEST))} or newer",
                hint="upgrade ClickHouse, or use the embedded store",
            )

    def refuse_other_schema(self, known: Sequence[Migration]) -> None:
        """Raise StartupError for a schema that this version cannot upgrade."""
        for each in known:
            found = self.applied.get(each.number, (each.name, each.checksum))
            if found != (each.name, each.checksum):
                # Until the first release, schema files are edited in place.
                raise StartupError(
                    f"the store was made with schema {each.number:04d}_{found[0]} ({found[1]}) of a"
                    f" development version, this version expects {each.number:04d}_{each.name}"
                    f" ({each.checksum})",
                    hint="start with a new --data-dir or database, or export with the version that"
                    " wrote it",
                )
        if unknown := sorted(set(self.applied) - {each.number for each in known}):
            raise StartupError(
                f"the store has migrations {unknown} that this version of tracereel does not know",
                hint="install the newer tracereel that wrote it, or restore a backup from before",
            )

    def missing(self, known: Iterable[Migration]) -> list[int]:
        """Return the numbers of the migrations that the node lacks."""
        return [each.number for each in known if each.number not in self.applied]


def _apply(migration: Migration, states: Sequence[NodeSchema], report: MigrationProgress) -> None:
    """Run each statement on the nodes that lack the migration; then write it down on each."""
    behind = [state.node for state in states if migration.number not in state.applied]
    done = {state.node.shard for state in states if migration.number in state.applied}
    first = {node.shard: node for node in reversed(behind) if node.shard not in done}
    what = f"schema {migration.number:04d}_{migration.name}"
    for statement in migration.statements:
        bare = without_comments(statement)
        for node in first.values() if bare.startswith(_OF_ROWS) else behind:
            _run(node, statement, what)
    for node in behind:
        node.store.change(
            query("note_migration"),
            {"number": migration.number, "name": migration.name, "checksum": migration.checksum},
        )
        report(node, what)


def _run(node: Node, statement: str, what: str) -> None:
    """Run a statement of the schema.

    Raises:
        StartupError: the server refuses it.
        StoreUnavailableError: the server does not answer or is busy.
    """
    try:
        node.store.command(statement)
    except (MissingRightError, PermanentError, UnknownRefusalError) as error:
        raise StartupError(
            f"{node.address} refuses {what}: {error.message}",
            hint="docs/growing.md lists the supported versions and the user's rights",
        ) from error
