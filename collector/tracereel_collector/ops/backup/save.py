"""Backup of a data directory, with or without a running collector."""

import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tracereel_collector.auth.keystore import FILE as KEYS_FILE
from tracereel_collector.config import Settings
from tracereel_collector.engine.settings import BACKUP_DIR
from tracereel_collector.errors import ServiceUnavailableError, StartupError
from tracereel_collector.ops.backup.manifest import (
    AUDIT,
    CLOCK,
    KEYS,
    QUEUE,
    STORE,
    Manifest,
    fingerprint,
)
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.queue.snapshot import copy_sqlite, queue_facts
from tracereel_collector.runtime.clock.trusted import CLOCK_FILE
from tracereel_collector.runtime.durable import sync_tree
from tracereel_collector.startup.data_dir import (
    QUEUE_FILE,
    STORE_DIR,
    maintenance_store,
    reached_store,
)
from tracereel_collector.startup.offline import settle
from tracereel_collector.store.archive import SHARD, write_archive
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.cluster import remembered_cluster
from tracereel_collector.store.migrate import applied_migrations
from tracereel_collector.store.tables import count_all, stored_bytes

LEFTOVER = "tracereel-backup-"
MARGIN_BYTES = 64 * 1024 * 1024

Say = Callable[[str], None]


def make_backup(
    settings: Settings,
    target: Path,
    *,
    wait_seconds: float,
    server_place: str | None = None,
    say: Say = lambda _: None,
) -> Manifest:
    """Save queue, store, keys and audit log as of one point in time.

    A ClickHouse server writes its part itself, to `server_place`; each shard of a cluster to its own.

    Raises:
        StartupError: the data or the target cannot be used, or disk space is too low.
        ServiceUnavailableError: the store is unreachable, or delivery did not pause in time.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StartupError(
            f"{target} is there already and not empty", hint="name a directory for this backup"
        )
    if not (settings.data_dir / QUEUE_FILE).is_file():
        raise StartupError(
            f"there is no queue in {settings.data_dir}", hint="choose another with --data-dir"
        )
    with reached_store(settings) as reached, closing(maintenance_store(reached.address)) as store:
        shards = _shards(store, server_place)
        if not reached.is_served:
            settle(settings, store)
        database = reached.address.database
        archive = _place_for_archive(settings, store) if server_place is None else None
        place = server_place if archive is None else f"File('{archive.name}')"
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            manifest = _save(settings, store, target, database, place or "", wait_seconds, say)
            if archive is not None:
                # A rename on the same file system; otherwise a copy, while delivery continues.
                shutil.move(archive, target / STORE)
        finally:
            if archive is not None:
                archive.unlink(missing_ok=True)
    if (settings.data_dir / AUDIT).is_dir():
        shutil.copytree(settings.data_dir / AUDIT, target / AUDIT)
    files = sorted(file for file in target.rglob("*") if file.is_file())
    complete = replace(
        manifest,
        server_place=server_place,
        shards=shards,
        files={str(file.relative_to(target)): fingerprint(file) for file in files},
    )
    complete.write(target)
    sync_tree(target)
    return complete


def _shards(store: ClickHouseStore, place: str | None) -> int:
    """Return the number of shards that are saved, each to a place of its own; 0 for one server."""
    if (cluster := remembered_cluster(store)) is None:
        return 0
    if place is None or SHARD not in place:
        raise StartupError(
            f"the store is the cluster {cluster.name!r}, and every shard needs a place of its own",
            hint=f"such as --server-to \"Disk('backups', 'monday-{SHARD}.tar')\"",
        )
    return len({node.shard for node in cluster.nodes})


def _save(
    settings: Settings,
    store: ClickHouseStore,
    target: Path,
    database: str,
    place: str,
    wait_seconds: float,
    say: Say,
) -> Manifest:
    """Save the parts that must be consistent with each other, while delivery is paused."""
    writers = StoreWriters((settings.data_dir / QUEUE_FILE).parent)
    deadline = time.monotonic() + wait_seconds
    while True:
        with writers.paused(timeout=max(0.0, deadline - time.monotonic())):
            paused_at = time.monotonic()
            if not queue_facts(settings.data_dir / QUEUE_FILE).open_batches:
                copy_sqlite(settings.data_dir / QUEUE_FILE, target / QUEUE)
                saved_by = write_archive(store, database=database, place=place)
                tables = count_all(store)
                migrations = applied_migrations(store)
                if (settings.data_dir / KEYS_FILE).is_file():
                    copy_sqlite(settings.data_dir / KEYS_FILE, target / KEYS)
                if (settings.data_dir / CLOCK_FILE).is_file():
                    shutil.copyfile(settings.data_dir / CLOCK_FILE, target / CLOCK)
                break
        # A sealed batch has an unknown outcome: let delivery finish it.
        if time.monotonic() > deadline:
            raise ServiceUnavailableError(
                f"a batch was still under way after {wait_seconds:g} s",
                hint="does the store answer? see GET /readyz/query",
            )
        time.sleep(0.1)
    say(f"queue and store saved; delivery paused for {time.monotonic() - paused_at:.1f} s")
    for node in saved_by if len(saved_by) > 1 else ():
        say(f"shard {node.shard} was saved by {node.address}")
    facts = queue_facts(target / QUEUE)
    return Manifest(
        tracereel=version("tracereel"),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        migrations=migrations,
        tables=tables,
        counters=facts.counters,
        waiting_bodies=facts.waiting_bodies,
        files={},
        database=database,
    )


def _place_for_archive(settings: Settings, store: ClickHouseStore) -> Path:
    """Return a path the engine may write to; delete leftovers of killed backups."""
    folder = settings.data_dir / STORE_DIR / BACKUP_DIR
    for old in folder.glob(f"{LEFTOVER}*"):
        old.unlink()
    needed, free = stored_bytes(store) + MARGIN_BYTES, shutil.disk_usage(folder).free
    if needed > free:
        raise StartupError(
            f"the store has {needed} bytes and {free} are free beside it",
            hint="ClickHouse writes the backup there first; free some space",
        )
    return folder / f"{LEFTOVER}{time.time_ns()}.tar"
