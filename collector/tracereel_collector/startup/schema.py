"""Schema of the store at the start of a collector, and by `tracereel schema apply`."""

from collections.abc import Sequence

from tracereel_collector.errors import StartupError, StoreUnavailableError
from tracereel_collector.store.clickhouse import ClickHouseStore, MissingRightError
from tracereel_collector.store.cluster import (
    RememberedCluster,
    clusters_here,
    find_nodes,
    has_schema,
    remember_cluster,
    remembered_cluster,
)
from tracereel_collector.store.layout import Layout
from tracereel_collector.store.migrate import MigrationProgress, NodeSchema, migrate, migrate_nodes
from tracereel_collector.store.sql import Migration, migrations

_APPLY = "run: tracereel schema apply --store DSN"


def prepare_schema(store: ClickHouseStore) -> list[Migration]:
    """Create or upgrade the schema of one server; only check that of a cluster.

    Raises:
        StartupError: the store refuses the schema, has that of another version, or is a cluster whose
            schema is not complete.
        StoreUnavailableError: the store is unavailable.
    """
    try:
        return _prepare(store)
    except MissingRightError as error:
        raise StartupError(
            f"the user {store.address.username!r} lacks a right: {error.message}",
            hint="docs/growing.md lists the rights that it needs",
        ) from error


def _prepare(store: ClickHouseStore) -> list[Migration]:
    if has_schema(store):
        cluster = remembered_cluster(store)
        if cluster is not None:
            _check(cluster)
            return []
    elif clusters := clusters_here(store):
        raise StartupError(
            f"the store is a node of the cluster {clusters[0]!r}, which has no schema yet",
            hint=f"{_APPLY}, or with --one-server to use this node alone",
        )
    store.prepare()
    return migrate(store)


def apply_schema(
    store: ClickHouseStore,
    *,
    cluster: str | None = None,
    one_server: bool = False,
    nodes: Sequence[str] = (),
    report: MigrationProgress = lambda _node, _what: None,
) -> list[Migration]:
    """Create or upgrade the schema where the store is: on one server or on all nodes of a cluster.

    Raises:
        StartupError: the place cannot be determined, or a node refuses the schema.
        StoreUnavailableError: a node does not answer; run it again.
    """
    known = remembered_cluster(store) if has_schema(store) else None
    name = known.name if known else _cluster_of(store, cluster, one_server=one_server)
    if known and (one_server or cluster not in (None, known.name)):
        raise StartupError(f"the database was made for the cluster {known.name!r}")
    if not name:
        store.prepare()
        return migrate(store)
    remembered = [each.address for each in known.nodes] if known else []
    found = find_nodes(store, name, nodes or remembered)
    for node in found:
        node.store.prepare()
    remember_cluster(found, name)
    return migrate_nodes(found, migrations(layout=Layout(name)), report=report)


def _cluster_of(store: ClickHouseStore, cluster: str | None, *, one_server: bool) -> str:
    """Return the cluster to use; empty for one server."""
    if one_server:
        return ""
    if has_schema(store):
        if cluster:
            raise StartupError(
                "the database was made for one server",
                hint="name another database in --store, and copy with tracereel migrate-store",
            )
        return ""
    found = clusters_here(store)
    if cluster:
        return cluster
    if len(found) > 1:
        raise StartupError(
            f"the server is a node of several clusters: {', '.join(found)}",
            hint="choose one with --cluster NAME",
        )
    return found[0] if found else ""


def _check(cluster: RememberedCluster) -> None:
    """Refuse a cluster of which a node that answers lacks a part of the schema."""
    expected = migrations(layout=Layout(cluster.name))
    answered = 0
    for node in cluster.nodes:
        try:
            state = NodeSchema.read(node) if has_schema(node.store) else None
        except StoreUnavailableError:
            continue
        answered += 1
        if state is not None:
            state.refuse_other_schema(expected)
        if state is None or state.missing(expected):
            lacking = "all" if state is None else state.missing(expected)
            raise StartupError(
                f"the node {node.address} of the cluster {cluster.name!r} lacks migrations: {lacking}",
                hint=_APPLY,
            )
        if state.is_closed:
            raise StartupError(
                f"the schema of the cluster {cluster.name!r} is being changed: {node.address} takes no"
                " inserts",
                hint=f"if no {_APPLY.removeprefix('run: ')} runs, run it again",
            )
    if not answered:
        raise StoreUnavailableError(f"no node of the cluster {cluster.name!r} answers")
