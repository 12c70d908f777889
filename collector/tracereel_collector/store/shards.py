"""Names of sharded tables. On a cluster, rows are in local tables."""

from collections.abc import Mapping
from dataclasses import dataclass

from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.sql import query


@dataclass(frozen=True, slots=True)
class Shards:
    """Tables that are spread over shards; empty on a single server."""

    _names: Mapping[str, str]
    """Distributed table by local table."""
    _places: Mapping[str, str]
    """Table expression for changes on all shards, by distributed table."""

    @classmethod
    def of(cls, store: ClickHouseStore) -> "Shards":
        """Read the sharded tables of a store."""
        found = store.rows(query("sharded_tables"))
        return cls(
            {local: name for name, local, _ in found},
            {name: f"`{local}` ON CLUSTER `{cluster}`" for name, local, cluster in found},
        )

    def name(self, kept: str) -> str:
        """Return the table that reads all shards, for a local table."""
        return self._names.get(kept, kept)

    def changed(self, name: str) -> str:
        """Return the table as named in a statement that changes rows, on all shards."""
        return self._places.get(name, f"`{name}`")
