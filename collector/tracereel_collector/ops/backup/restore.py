"""Restore of a data directory from a backup."""

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from tracereel_collector.auth.keystore import FILE as KEYS_FILE
from tracereel_collector.config import Settings
from tracereel_collector.engine.settings import BACKUP_DIR
from tracereel_collector.errors import StartupError
from tracereel_collector.ops.backup.manifest import AUDIT, CLOCK, KEYS, QUEUE, STORE, Manifest
from tracereel_collector.queue.snapshot import give_new_id, queue_facts
from tracereel_collector.runtime.clock.trusted import CLOCK_FILE
from tracereel_collector.runtime.durable import sync, sync_tree
from tracereel_collector.startup.data_dir import (
    QUEUE_FILE,
    STORE_DIR,
    maintenance_store,
    reached_store,
)
from tracereel_collector.startup.schema import apply_schema
from tracereel_collector.store.archive import read_archive
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.cluster import clusters_here, has_schema, remembered_cluster
from tracereel_collector.store.migrate import applied_migrations
from tracereel_collector.store.sql import migrations
from tracereel_collector.store.tables import count_all, wrong_counts

_UNFINISHED = ".restoring"

Say = Callable[[str], None]


def restore_backup(settings: Settings, source: Path, *, say: Say = lambda _: None) -> Manifest:
    """Create the data directory from a backup; a collector can then be started on it.

    Everything is written to a sibling directory that is renamed at the end, so that an interrupted
    restore leaves no incomplete data directory.

    Raises:
        StartupError: the backup cannot be used, or the data directory is not empty.
        ServiceUnavailableError: the store could not read its part.
    """
    data_dir = settings.data_dir
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise StartupError(
            f"the data directory {data_dir} is not empty",
            hint="restore into a new one with --data-dir",
        )
    manifest = Manifest.read(source)
    _refuse_newer(manifest)
    _refuse_other_store(settings, manifest)
    manifest.check(source)
    say(f"the backup of {manifest.made} is whole")
    made = data_dir.with_name(data_dir.name + _UNFINISHED)
    if made.exists():
        shutil.rmtree(made)
    made.mkdir(parents=True, mode=0o700)
    (made / QUEUE_FILE).parent.mkdir(mode=0o700)
    if manifest.server_place is None:
        _bring_store(replace(settings, data_dir=made), source, manifest)
    else:
        address = StoreAddress.parse(settings.store)
        with closing(maintenance_store(address)) as store:
            _prepare_cluster(store, manifest)
            _read(store, manifest, manifest.server_place, into=address.database)
    shutil.copyfile(source / QUEUE, made / QUEUE_FILE)
    if not queue_facts(made / QUEUE_FILE).open_batches:
        give_new_id(made / QUEUE_FILE)
    if KEYS in manifest.files:
        shutil.copyfile(source / KEYS, made / KEYS_FILE)
        (made / KEYS_FILE).chmod(0o600)
    if CLOCK in manifest.files:
        shutil.copyfile(source / CLOCK, made / CLOCK_FILE)
    if (source / AUDIT).is_dir():
        shutil.copytree(source / AUDIT, made / AUDIT)
    # Flush before the rename: a power cut leaves a complete data directory or none.
    sync_tree(made)
    if data_dir.exists():
        data_dir.rmdir()
    made.rename(data_dir)
    sync(data_dir.parent)
    return manifest


def _refuse_newer(manifest: Manifest) -> None:
    known = {each.number for each in migrations()}
    if unknown := sorted(set(manifest.migrations) - known):
        raise StartupError(
            f"the backup was made by tracereel {manifest.tracereel} and has migrations {unknown}"
            f" that version {version('tracereel')} does not know",
            hint="restore it with the version that made it",
        )


def _refuse_other_store(settings: Settings, manifest: Manifest) -> None:
    embedded = settings.store == "embedded"
    if manifest.server_place is not None and embedded:
        raise StartupError(
            f"the backup's store is a server's, at {manifest.server_place}",
            hint="name the server with --store",
        )
    if manifest.server_place is None and not embedded:
        raise StartupError(
            "the backup has an embedded store, and --store names a server",
            hint="restore it embedded, then use tracereel migrate-store",
        )


def _prepare_cluster(store: ClickHouseStore, manifest: Manifest) -> None:
    """Make the tables of a cluster; refuse one that the backup cannot be restored into."""
    if manifest.shards and clusters_here(store):
        apply_schema(store)
    cluster = remembered_cluster(store) if has_schema(store) else None
    shards = len({node.shard for node in cluster.nodes}) if cluster else 0
    if shards != manifest.shards:
        raise StartupError(
            f"the backup is of {_shown(manifest.shards)}, and --store names {_shown(shards)}",
            hint="restore it into one of the same size",
        )
    if shards and applied_migrations(store) != manifest.migrations:
        raise StartupError(
            f"the backup was made by tracereel {manifest.tracereel} with an older schema",
            hint="restore it with that version, then upgrade with: tracereel schema apply",
        )


def _shown(shards: int) -> str:
    return f"a cluster of {shards} shards" if shards else "one server"


def _bring_store(settings: Settings, source: Path, manifest: Manifest) -> None:
    archive = settings.data_dir / STORE_DIR / BACKUP_DIR / STORE
    archive.parent.mkdir(parents=True, mode=0o700)
    try:
        archive.hardlink_to(source / STORE)
    except OSError:  # on another file system
        shutil.copyfile(source / STORE, archive)
    try:
        with (
            reached_store(settings) as reached,
            closing(maintenance_store(reached.address)) as store,
        ):
            _read(store, manifest, f"File('{STORE}')", into=reached.address.database)
    finally:
        archive.unlink(missing_ok=True)


def _read(store: ClickHouseStore, manifest: Manifest, place: str, *, into: str) -> None:
    store.prepare()
    if filled := sorted(name for name, rows in count_all(store).items() if rows):
        raise StartupError(
            f"the database {into} has rows in {filled[0]} already",
            hint="restore into one that is empty, or not there yet",
        )
    read_archive(store, database=manifest.database, place=place, into=into)
    if wrong := wrong_counts(manifest.tables, count_all(store)):
        raise StartupError(f"the store was not restored whole (table: saved, found): {wrong}")
