"""Backup of the whole database into files that ClickHouse writes, one for each shard, and its restore."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.cluster import Node
from tracereel_collector.store.shards import Shards

SHARD: Final = "{shard}"
"""Part of a destination that stands for the number of a shard."""
LOOK_SECONDS: Final = 0.1
_STATE = "SELECT status, error FROM system.backups WHERE id = {id:String}"
_UNDER_WAY: Final = frozenset({"CREATING_BACKUP", "RESTORING"})
_DONE: Final = frozenset({"BACKUP_CREATED", "RESTORED"})


def write_archive(store: ClickHouseStore, *, database: str, place: str) -> Sequence[Node]:
    """Back up all tables to a ClickHouse destination, `File('x.tar')` or `Disk(…)`; return who wrote it.

    On a cluster the first replica that is up writes its shard, and `{shard}` is its number.
    """
    writers = Shards.of(store).first_up()
    _on_each(writers, lambda node: f"BACKUP DATABASE `{database}` TO {_filled(place, node)} ASYNC")
    return writers


def read_archive(store: ClickHouseStore, *, database: str, place: str, into: str) -> None:
    """Restore an archive into a database of any name; on a cluster, into its empty tables."""
    shards = Shards.of(store)
    what, settings = f"DATABASE `{database}` AS `{into}`", ""
    if shards.are_several:
        # The tables have their places in Keeper, which those of the archive would take.
        kept = [f"TABLE `{database}`.`{each}` AS `{into}`.`{each}`" for each in shards.all_kept]
        what, settings = ", ".join(kept), " SETTINGS allow_different_table_def = 1"
    _on_each(
        shards.first_up(),
        lambda node: f"RESTORE {what} FROM {_filled(place, node)}{settings} ASYNC",
    )


def _filled(place: str, node: Node) -> str:
    return place.replace(SHARD, str(node.shard))


def _on_each(nodes: Sequence[Node], statement: Callable[[Node], str]) -> None:
    """Run on all nodes at once, in the engine's background: it exceeds the time limit of a request."""
    begun = [
        node.store.select(statement(node), {}, fmt="TabSeparated").decode().split()
        for node in nodes
    ]
    for node, (backup_id, status) in zip(nodes, begun, strict=True):
        _wait(node, backup_id, status)


def _wait(node: Node, backup_id: str, status: str) -> None:
    error = ""
    while status in _UNDER_WAY:
        time.sleep(LOOK_SECONDS)
        found = node.store.select(_STATE, {"id": backup_id}, fmt="TabSeparated").decode()
        status, _, error = found.rstrip("\n").partition("\t")
    if status not in _DONE:
        # The part after the message is a stack trace.
        message = (
            error.partition(", Stack trace")[0] or status or "the store was started anew meanwhile"
        )
        raise StoreUnavailableError(f"the store could not do it: {message[:300]}")
