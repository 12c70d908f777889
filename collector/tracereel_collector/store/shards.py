"""Where the rows of a table are: in itself or, on a cluster, in one of another name on every shard."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tracereel_collector.store.sql import query


@dataclass(frozen=True, slots=True)
class Shards:
    """The tables that are spread over shards; none where there is one server."""

    _names: Mapping[str, str]
    """By the table that each shard keeps."""
    _places: Mapping[str, str]
    """How a statement names a table whose rows it changes on all shards."""

    @classmethod
    def of(cls, sharded: Iterable[tuple[str, ...]]) -> "Shards":
        """From the rows of `sharded_tables.sql`."""
        found = list(sharded)
        return cls(
            {local: name for name, local, _ in found},
            {name: f"`{local}` ON CLUSTER `{cluster}`" for name, local, cluster in found},
        )

    def name(self, kept: str) -> str:
        """The table that reads the rows of all shards, of one that keeps some."""
        return self._names.get(kept, kept)

    def changed(self, name: str) -> str:
        """The table as a statement names it that changes its rows, wherever they are."""
        return self._places.get(name, f"`{name}`")


SHARDED = query("sharded_tables")
"""Asks which tables those are."""
