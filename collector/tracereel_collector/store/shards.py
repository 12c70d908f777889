"""Changes of stored rows: on one server, or on one replica of every shard of a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.store.clickhouse import ClickHouseStore, MissingRightError
from tracereel_collector.store.cluster import Node, remembered_cluster
from tracereel_collector.store.sql import query

CATCH_UP_SECONDS: Final = 10
"""Time for a replica to fetch the rows of one table."""


@dataclass(frozen=True, slots=True)
class Shards:
    """Tables with rows, by the name that reads all shards, and the replicas that change them."""

    _distributed: Mapping[str, str]
    """Distributed table by local table; empty on a single server."""
    _shards: Sequence[Sequence[Node]]
    """Replicas of each shard; a single server is one."""

    @classmethod
    def of(cls, store: ClickHouseStore) -> "Shards":
        """Read how the tables of a store are spread."""
        cluster = remembered_cluster(store)
        if cluster is None:
            return cls({}, [[Node(1, 1, store)]])
        shards: dict[int, list[Node]] = {}
        for node in cluster.nodes:
            shards.setdefault(node.shard, []).append(node)
        names = {local: name for name, local in store.rows(query("sharded_tables"))}
        return cls(names, list(shards.values()))

    def name(self, kept: str) -> str:
        """Return the table that reads all shards, for a table that stores rows."""
        return self._distributed.get(kept, kept)

    def kept(self, name: str) -> str:
        """Return the table that stores the rows, for a table that reads all shards."""
        found = [local for local, distributed in self._distributed.items() if distributed == name]
        return found[0] if found else name

    @property
    def are_several(self) -> bool:
        """Return whether this is a cluster, of whatever size."""
        return bool(self._distributed)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the shards as `shardNum()` returns them; 0 on a single server."""
        return [shard[0].shard for shard in self._shards] if self.are_several else [0]

    @property
    def replicas(self) -> list[ClickHouseStore]:
        """All replicas of all shards."""
        return [node.store for shard in self._shards for node in shard]

    def one_of_each(self) -> list[ClickHouseStore]:
        """Return the first replica of every shard."""
        return [shard[0].store for shard in self._shards]

    @property
    def all_kept(self) -> list[str]:
        """Tables that store the rows of a cluster, by their names on each node."""
        return sorted(self._distributed)

    def first_up(self) -> list[Node]:
        """Return the first replica of every shard that answers, with the rows that it had to fetch.

        Raises:
            StoreUnavailableError: a whole shard is away, or such a replica lacks rows of another one.
        """
        if not self.are_several:
            return [shard[0] for shard in self._shards]
        found = []
        for shard in self._shards:
            up = next((node for node in shard if node.store.ping()), None)
            if up is None:
                raise StoreUnavailableError(f"no replica of shard {shard[0].shard} answers")
            if not _caught_up(up.store):
                raise StoreUnavailableError(f"{up.address} lacks rows that another replica has")
            found.append(up)
        return found

    def alter(self, name: str, change: str, parameters: Mapping[str, Any]) -> None:
        """Run `ALTER TABLE` on every shard; return when all replicas that are up applied it.

        Raises:
            StoreUnavailableError: a whole shard is away; the others have applied it.
        """
        for replicas in self._shards:
            _on_any(replicas, f"ALTER TABLE `{self.kept(name)}` {change}", parameters)

    def still_deletes(self, name: str) -> list[str]:
        """Return the replicas that are up and still delete runs from a table."""
        kept = self.kept(name)
        return [
            node.address for shard in self._shards for node in shard if _deletes(node.store, kept)
        ]

    def catch_up(self) -> list[str]:
        """Wait until replicas have fetched what others took; return those that have not, or are away.

        Raises:
            MissingRightError: the user may not read which rows a replica lacks.
        """
        if not self.are_several:
            return []
        return [
            node.address for shard in self._shards for node in shard if not _caught_up(node.store)
        ]

    def unfinished(self) -> list[str]:
        """Return the addresses of the replicas that have not applied all changes yet.

        Raises:
            MissingRightError: the user may not read which changes are left.
        """
        return [
            node.address for shard in self._shards for node in shard if not _is_finished(node.store)
        ]


def _on_any(replicas: Sequence[Node], statement: str, parameters: Mapping[str, Any]) -> None:
    """Run a change on the first replica that answers; the others get it from Keeper."""
    for node in replicas[:-1]:
        try:
            return node.store.change(statement, parameters)
        except MissingRightError:
            raise
        except StoreUnavailableError:
            continue
    return replicas[-1].store.change(statement, parameters)


def _deletes(store: ClickHouseStore, table: str) -> bool:
    try:
        return store.rows(query("pending_deletions"), table=table) not in ([], [("0",)])
    except MissingRightError:
        raise
    except StoreUnavailableError:
        return False  # its rows are not read, either


def _caught_up(store: ClickHouseStore) -> bool:
    try:
        for (table,) in store.rows(query("replicas_behind")):
            # Without LIGHTWEIGHT it would wait for merges as well.
            store.change(
                f"SYSTEM SYNC REPLICA `{table}` LIGHTWEIGHT", {}, receive_timeout=CATCH_UP_SECONDS
            )
    except MissingRightError:
        raise  # else every deletion would be reported as unfinished for ever
    except StoreUnavailableError:
        return False
    return True


def _is_finished(store: ClickHouseStore) -> bool:
    try:
        return store.rows(query("unfinished_changes")) == [("0",)]
    except MissingRightError:
        raise  # else every deletion would be reported as unfinished for ever
    except StoreUnavailableError:
        return False
