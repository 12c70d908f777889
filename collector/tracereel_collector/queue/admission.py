"""Admission of bodies: free disk, bytes of the whole queue and the tenant's share of them."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import structlog

from tracereel_collector.errors import QueueUnavailableError, ThrottledError
from tracereel_collector.model import Receipt
from tracereel_collector.queue import bodies
from tracereel_collector.queue.database import SharedReader
from tracereel_collector.queue.writer import FREE_SPACE
from tracereel_collector.runtime.tenant_shares import FULL, SHARE, SharePolicy

log = structlog.get_logger(__name__)

RESOURCE = "queue_bytes"
RESERVE_BYTES = 16 * 1024 * 1024
LOOK_AGAIN_SECONDS = 0.1
LOOK_AT_DISK_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Size and time limits of the queue."""

    commit_bytes: int
    max_pending_bytes: int
    retain_seconds: float
    min_free_bytes: int = 0


class Admission:
    """Refuses bodies for which there is no room; thread-safe.

    A reserve file is deleted when the disk is full, so that commits of deletes still fit.
    """

    def __init__(
        self,
        path: Path,
        limits: QueueLimits,
        policy: SharePolicy,
        *,
        free_bytes: Callable[[], int] | None,
    ) -> None:
        self._limits = limits
        self._policy = policy
        self._ask_disk = free_bytes or (lambda: shutil.disk_usage(path.parent).free)
        self._disk_free = 0
        self._disk_looked_at = float("-inf")
        self._reserve = path.with_name("reserve")
        self._disk_full = not self._keep_reserve()
        self._reader = SharedReader(path)
        self._lock = threading.Lock()
        self._submitted: dict[str, int] = {}
        self.held = bodies.HeldBytes()
        """Bytes of committed bodies; the queue updates it after every commit."""
        self.look()
        self.close = self._reader.close

    @property
    def disk_free_bytes(self) -> int:
        """Free disk space, at most `LOOK_AT_DISK_SECONDS` old."""
        if time.monotonic() - self._disk_looked_at > LOOK_AT_DISK_SECONDS:
            self._disk_free = self._ask_disk()
            self._disk_looked_at = time.monotonic()
        return self._disk_free

    def look(self) -> None:
        """Read the held bytes, which another process may have changed."""
        self._looked_at = time.monotonic()
        self.held = bodies.HeldBytes.of(self._reader.rows(bodies.TOTALS))

    def check(self, size: int, *, waiting: int) -> None:
        """Check that the queue has room; `waiting` bytes wait for a commit."""
        limits = self._limits
        if self._disk_full:
            if not self._keep_reserve():
                raise QueueUnavailableError("the disk is full", hint=FREE_SPACE)
            self._disk_full = False
        if self.disk_free_bytes < limits.min_free_bytes:
            raise QueueUnavailableError(
                f"{self.disk_free_bytes} bytes of disk are free,"
                f" {limits.min_free_bytes} are kept free",
                hint="free space in the data dir, or lower TRACEREEL_MIN_FREE_BYTES",
            )
        most = limits.max_pending_bytes - size
        if self._used(waiting) > most and time.monotonic() - self._looked_at > LOOK_AGAIN_SECONDS:
            self.look()  # another process may have made room
        if self._used(waiting) > most:
            self._policy.on_refused(RESOURCE, FULL)
            raise ThrottledError(
                f"{self.held.pending} bytes wait for the store,"
                f" the limit is {limits.max_pending_bytes}",
                hint="is the store reachable? see /readyz/query",
            )

    def _used(self, waiting: int) -> int:
        # Quarantined bytes stay until retried, dropped or expired: they count towards the same limit.
        return self.held.pending + self.held.quarantined + waiting

    def check_share(self, tenant: str, size: int, *, waiting: int) -> None:
        """Check that a tenant has not used up its share of the queue."""
        policy, total = self._policy, self._limits.max_pending_bytes
        # A tenant's bytes never exceed the total, so most bodies need no read of the file.
        if not policy.keeps_room or self._used(waiting) + size <= total * policy.share:
            return
        with self._lock:  # a body that is committed meanwhile stays in `_submitted`
            try:
                now = bodies.HeldBytes.of(self._reader.rows(bodies.TOTALS))
                ((pending, quarantined),) = self._reader.rows(bodies.OF_TENANT, tenant)
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

    def disk_is_full(self) -> None:
        """Give up the reserve and refuse bodies until there is room for it again."""
        if not self._disk_full:
            log.error("disk_full", path=str(self._reserve.parent), advice=FREE_SPACE)
        self._disk_full = True
        self._reserve.unlink(missing_ok=True)

    def _keep_reserve(self) -> bool:
        """Create the reserve if twice its size is free; return whether it exists."""
        if self._reserve.exists():
            return True
        if shutil.disk_usage(self._reserve.parent).free < 2 * RESERVE_BYTES:
            return False
        descriptor = os.open(self._reserve, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        except OSError:
            self._reserve.unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)
        return True
