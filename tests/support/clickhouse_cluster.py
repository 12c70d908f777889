"""Cluster to test on, by the addresses of its nodes.

`TRACEREEL_TEST_CLUSTER=clickhouse://user:password@host:port,…` names every node of a cluster with at least
two shards of two replicas each. The tests make databases `db_…` in it and stop no node: a replica
is away for them while its tables are detached. `TRACEREEL_TEST_CLUSTER_USER=name:password` names a user
with the rights of docs/growing.md on the database `rights`, and no more. `TRACEREEL_TEST_CLUSTER_DISK`
names a disk that every node has and may write backups to.
"""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.support.server_users import RIGHTS_DATABASE
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress

NODES = [each for each in os.environ.get("TRACEREEL_TEST_CLUSTER", "").split(",") if each]
BACKUP_DISK = os.environ.get("TRACEREEL_TEST_CLUSTER_DISK", "")
LIMITED_USER = os.environ.get("TRACEREEL_TEST_CLUSTER_USER", "")
MISSING = "TRACEREEL_TEST_CLUSTER names no cluster: clickhouse://user:password@host:port,…"


@dataclass(frozen=True)
class ClusterDatabase:
    """Database that does not exist yet, on every node of a cluster."""

    dsns: list[str]
    """What `--store` takes, for each node: replicas of the first shard first."""

    @property
    def nodes(self) -> str:
        """Return what `--nodes` takes."""
        return ",".join(urlsplit(dsn).netloc.rpartition("@")[2] for dsn in self.dsns)

    def stores(self) -> list[ClickHouseStore]:
        """Return a store for each node."""
        return [
            ClickHouseStore(StoreAddress.parse(dsn), query_seconds=60, query_memory_bytes=1 << 30)
            for dsn in self.dsns
        ]

    def drop(self) -> None:
        """Delete it from every node."""
        for store in self.stores():
            name = store.address.database
            store.outside().command(f"DROP DATABASE IF EXISTS `{name}` SYNC")
            store.close()


def new_cluster_database() -> ClusterDatabase:
    """Return an unused database of the named cluster; skip the test if there is none."""
    if not NODES:
        pytest.skip(MISSING)
    name = f"db_{uuid.uuid4().hex}"
    return ClusterDatabase([f"{node.rstrip('/')}/{name}" for node in NODES])


def limited_user_database() -> ClusterDatabase:
    """Return the database of the user with the documented rights; skip the test if there is none."""
    if not (NODES and LIMITED_USER):
        pytest.skip("TRACEREEL_TEST_CLUSTER_USER names no user: name:password")
    places = [urlsplit(node).netloc.rpartition("@")[2] for node in NODES]
    ClusterDatabase([f"{node.rstrip('/')}/{RIGHTS_DATABASE}" for node in NODES]).drop()
    return ClusterDatabase(
        [f"clickhouse://{LIMITED_USER}@{place}/{RIGHTS_DATABASE}" for place in places]
    )


@contextmanager
def away(store: ClickHouseStore, table: str) -> Iterator[None]:
    """Detach a table of a replica, as if the replica were away."""
    store.command(f"DETACH TABLE {table} SYNC")
    try:
        yield
    finally:
        store.command(f"ATTACH TABLE {table}")


def _apply_command(dsn: str, nodes: str) -> list[str]:
    command = [sys.executable, "-m", "tracereel", "schema", "apply", "--store", dsn]
    return [*command, "--nodes", nodes]


def kill_apply_schema(dsn: str, nodes: str, *, environ: Mapping[str, str], lines: int) -> None:
    """Start the same command, and kill it with SIGKILL after so many lines of its output."""
    with subprocess.Popen(
        _apply_command(dsn, nodes), env={**os.environ, **environ}, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        for _ in range(lines):
            running.stdout.readline()
        running.kill()


def apply_schema(
    dsn: str, nodes: str = "", *, environ: Mapping[str, str] | None = None, seconds: float = 0.0
) -> None:
    """Create or upgrade the schema with the command of operators, and repeat it for some seconds."""
    deadline = time.monotonic() + seconds
    while True:
        done = subprocess.run(
            _apply_command(dsn, nodes),
            env={**os.environ, **(environ or {})},
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode == 0:
            return
        assert time.monotonic() < deadline, done.stderr
