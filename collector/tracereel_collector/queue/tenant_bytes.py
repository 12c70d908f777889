"""Queued and quarantined bytes by tenant, updated in the transactions that change them."""

import sqlite3
import threading
from concurrent.futures import Future
from pathlib import Path

from tracereel_collector.errors import ThrottledError
from tracereel_collector.model import Batch, Kind, Receipt
from tracereel_collector.queue import gauges
from tracereel_collector.queue.database import SharedReader
from tracereel_collector.runtime.tenant_shares import FULL, SHARE, SharePolicy

RESOURCE = "queue_bytes"
_OF_TENANT = "SELECT pending, quarantined FROM tenant_bytes WHERE tenant=?"
_UNDELIVERED = (
    "INSERT INTO tenant_bytes SELECT tenant, sum(bytes), 0 FROM bodies WHERE kind=?1 AND id > coalesce("
    "(SELECT max(last_body) FROM batches WHERE kind=?1 AND done_unix_nano IS NOT NULL), 0)"
    " GROUP BY tenant ON CONFLICT (tenant) DO UPDATE SET pending = pending + excluded.pending"
)
_QUARANTINED = (
    "INSERT INTO tenant_bytes SELECT tenant, 0, sum(length(data)) FROM quarantine WHERE true"
    " GROUP BY tenant ON CONFLICT (tenant) DO UPDATE SET quarantined = excluded.quarantined"
)


def add(
    connection: sqlite3.Connection, tenant: str, *, pending: int = 0, quarantined: int = 0
) -> None:
    """Add to a tenant's bytes within the current transaction."""
    connection.execute(
        "INSERT INTO tenant_bytes VALUES (?, ?, ?) ON CONFLICT (tenant) DO UPDATE SET"
        " pending = pending + excluded.pending, quarantined = quarantined + excluded.quarantined",
        (tenant, pending, quarantined),
    )


def deliver(connection: sqlite3.Connection, batch: Batch) -> None:
    """Subtract a delivered batch from its tenants' pending bytes."""
    delivered = connection.execute(
        "SELECT tenant, sum(bytes) FROM bodies WHERE kind=? AND id BETWEEN ? AND ? GROUP BY tenant",
        (batch.kind, batch.first_body, batch.last_body),
    ).fetchall()
    for tenant, size in delivered:
        add(connection, tenant, pending=-size)
    connection.execute("DELETE FROM tenant_bytes WHERE pending <= 0 AND quarantined <= 0")


def measure(connection: sqlite3.Connection) -> None:
    """Recalculate all from the tables, when the owner process starts."""
    connection.execute("DELETE FROM tenant_bytes")
    for kind in Kind:
        connection.execute(_UNDELIVERED, (kind,))
    connection.execute(_QUARANTINED)


class TenantDoor:
    """Refuses bodies of tenants that have used up their share of the queue; thread-safe."""

    def __init__(self, path: Path, total: int, policy: SharePolicy) -> None:
        self._total = total
        self._policy = policy
        self._reader = SharedReader(path)
        self._lock = threading.Lock()
        self._submitted: dict[str, int] = {}
        self.close = self._reader.close

    def count_full(self) -> None:
        """Count a body refused because the queue has no room for any tenant."""
        self._policy.on_refused(RESOURCE, FULL)

    def check(self, tenant: str, size: int, seen: gauges.Bytes, *, waiting: int) -> None:
        """Check a body before it is submitted; `waiting` bytes wait for a commit."""
        policy, total = self._policy, self._total
        used = seen.pending + seen.quarantined + waiting
        # A tenant's bytes never exceed the total, so most bodies need no read of the file.
        if not policy.keeps_room or used + size <= total * policy.share:
            return
        with self._lock:  # a body that is committed meanwhile stays in `_submitted`
            try:
                now = gauges.totals(self._reader.rows(gauges.ALL))
                ((pending, quarantined),) = self._reader.rows(_OF_TENANT, tenant) or [(0, 0)]
            except sqlite3.Error:
                return  # closed, or a disk error, which the commit thread reports
            held = pending + quarantined + self._submitted.get(tenant, 0)
        used = now.pending + now.quarantined + waiting
        if policy.reason(held=held, used=used, total=total, amount=size) != SHARE:
            return
        policy.on_refused(RESOURCE, SHARE)
        raise ThrottledError(
            f"this tenant has {pending} bytes that wait for the store and {quarantined} in quarantine:"
            f" its share of the limit of {total} while other tenants have keys",
            hint="is the store reachable? see GET /readyz/query and GET /v1/quarantine",
        )

    def follow(self, appended: "Future[Receipt]", tenant: str, size: int) -> None:
        """Count a body as submitted until it is committed or fails."""
        if not self._policy.keeps_room:
            return
        with self._lock:
            self._submitted[tenant] = self._submitted.get(tenant, 0) + size
        appended.add_done_callback(lambda _: self._settle(tenant, size))

    def _settle(self, tenant: str, size: int) -> None:
        with self._lock:
            left = self._submitted.pop(tenant, 0) - size
            if left > 0:
                self._submitted[tenant] = left
