"""Nodes of a cluster: found in `system.clusters`, reached over HTTP, remembered in the database."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from tracereel_collector.errors import StartupError
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.sql import query

_Member = tuple[int, int, str, int, int]
_Remembered = tuple[str, list[tuple[int, int, str, int]]]


@dataclass(frozen=True, slots=True)
class Node:
    """ClickHouse server that holds a replica of a shard; a single server is shard 1, replica 1."""

    shard: int
    replica: int
    store: ClickHouseStore

    @property
    def address(self) -> str:
        """Host and HTTP port."""
        return f"{self.store.address.host}:{self.store.address.port}"


@dataclass(frozen=True, slots=True)
class RememberedCluster:
    """Cluster that a database is spread over."""

    name: str
    nodes: tuple[Node, ...]


def clusters_here(store: ClickHouseStore) -> list[str]:
    """Return the clusters of several nodes that the server is configured as a node of."""
    return [name for (name,) in store.outside().rows(query("clusters_here"))]


def remembered_cluster(store: ClickHouseStore) -> RememberedCluster | None:
    """Return the cluster that an existing database was made for; None on a single server."""
    if not store.rows(query("tables_there"), names=["schema_cluster"]):
        return None
    answer = store.select(query("schema_cluster"), {}, fmt="JSONCompactEachRow")
    for name, nodes in msgspec.json.Decoder(_Remembered).decode_lines(answer):
        found = [Node(shard, replica, store.at(host, port)) for shard, replica, host, port in nodes]
        return RememberedCluster(name, tuple(found))
    return None


def remember_cluster(nodes: Sequence[Node], cluster: str) -> None:
    """Record on every node which cluster the database is spread over."""
    row = [
        cluster,
        [
            (each.shard, each.replica, each.store.address.host, each.store.address.port)
            for each in nodes
        ],
    ]
    for node in nodes:
        node.store.command(query("create_schema_cluster"))
        answer = node.store.select(query("schema_cluster"), {}, fmt="JSONCompactEachRow")
        if msgspec.json.Decoder().decode_lines(answer) != [msgspec.to_builtins(row)]:
            node.store.put(
                "schema_cluster",
                msgspec.json.encode(row),
                fmt="JSONCompactEachRow",
                columns=["cluster", "nodes"],
            )


def find_nodes(store: ClickHouseStore, cluster: str, addresses: Iterable[str] = ()) -> list[Node]:
    """Return all nodes of a cluster, by default under the HTTP port of the given store.

    Raises:
        StartupError: there is no such cluster, or the addresses are not those of its nodes.
        StoreUnavailableError: a node does not answer.
    """
    members = _members(store, cluster)
    if not members:
        raise StartupError(
            f"the server knows no cluster {cluster!r}",
            hint="name one of remote_servers in its configuration",
        )
    given = [_host_and_port(each) for each in addresses]
    places = given or list(
        dict.fromkeys((host, store.address.port) for _, _, host, _, _ in members)
    )
    found: dict[tuple[int, int], Node] = {}
    for host, port in places:
        node = store.at(host, port)
        here = [each for each in _members(node, cluster) if each[4]]
        if len(here) != 1:
            raise StartupError(
                f"{host}:{port} is {len(here)} nodes of the cluster {cluster!r}; expected one",
                hint="name the HTTP address of every node with --nodes host:port,host:port",
            )
        found[here[0][:2]] = Node(*here[0][:2], node)
    if missing := [each for each in members if each[:2] not in found]:
        shard, replica, host, port, _ = missing[0]
        raise StartupError(
            f"no HTTP address is known of shard {shard}, replica {replica} ({host}:{port})",
            hint="name the HTTP address of every node with --nodes host:port,host:port",
        )
    return [found[place] for place in sorted(found)]


def has_schema(store: ClickHouseStore) -> bool:
    """Return whether the database was made by a tracereel; False if it does not exist."""
    database = store.address.database
    return bool(store.outside().rows(query("has_schema"), database=database))


def _members(store: ClickHouseStore, cluster: str) -> list[_Member]:
    answer = store.outside().select(
        query("cluster_members"), {"cluster": cluster}, fmt="JSONCompactEachRow"
    )
    return msgspec.json.Decoder(_Member).decode_lines(answer)


def _host_and_port(text: str) -> tuple[str, int]:
    host, separator, port = text.strip().removeprefix("http://").rpartition(":")
    if not separator or not host or not port.isdecimal():
        raise StartupError(f"{text!r} is not an address of a node; expected host:port")
    return host.strip("[]"), int(port)
