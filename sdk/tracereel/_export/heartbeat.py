"""Heartbeats that report the progress of this emitter and of recovered dead emitters.

Used by the delivery thread only. A lost heartbeat is harmless because the next one supersedes it.
Heartbeats stop if the collector does not support them.
"""

import os
import socket
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import inf
from typing import Final

import msgspec

from tracereel._export.sender import DeliveryUnavailableError, Sender
from tracereel._export.spool_reader import Remains
from tracereel.config import Config
from tracereel.heartbeats import Heartbeat, State

TIMEOUT: Final = 3.0
"""Seconds a heartbeat may take; events wait behind it."""
MAX_UNSAID: Final = 64
"""Reports on dead emitters that may wait for delivery."""


@dataclass(frozen=True, slots=True)
class EmitterAccount:
    """Counters of this process's emitter."""

    emitter_id: str
    recorded: int
    settled: int
    rejected: int
    dropped: Mapping[str, int]


class Heartbeats:
    """Heartbeats of one shipper and of the dead emitters it has recovered."""

    def __init__(self, config: Config, sender: Sender) -> None:
        self._service = config.service
        self._interval = config.heartbeat_seconds
        self._sender = sender
        self._next = 0.0
        self._off = self._interval <= 0.0
        self._unsaid: deque[Heartbeat] = deque(maxlen=MAX_UNSAID)

    @property
    def due_at(self) -> float:
        """Monotonic time when the next heartbeat is due."""
        return inf if self._off else self._next

    def beat(self, account: EmitterAccount, state: State, *, timeout: float = TIMEOUT) -> None:
        """Send a heartbeat with this emitter's counters."""
        if self._off:
            return
        # Set before sending, so that a failed heartbeat is not retried early.
        self._next = time.monotonic() + self._interval
        mine = Heartbeat(
            emitter_id=account.emitter_id,
            state=state,
            sent_at=datetime.now(UTC),
            recorded=account.recorded,
            delivered=account.settled - account.rejected,
            rejected=account.rejected,
            spooled=max(0, account.recorded - account.settled),
            dropped=dict(account.dropped),
            interval_seconds=self._interval,
            started_at=_born(account.emitter_id),
            service=_short(self._service),
            host=_host(),
            pid=os.getpid(),
            sdk_version=_sdk_version(),
        )
        self._send([*self._unsaid, mine], timeout)

    def recovered(self, remains: Remains) -> None:
        """Report that all events of a dead emitter have been processed."""
        if self._off or not remains.recorded:
            return
        self._unsaid.append(
            Heartbeat(
                emitter_id=remains.emitter_id,
                state="recovered",
                sent_at=datetime.now(UTC),
                recorded=remains.recorded,
                delivered=max(0, remains.recorded - remains.rejected),
                rejected=remains.rejected,
                interval_seconds=self._interval,
                started_at=_born(remains.emitter_id),
                service=_short(remains.service),
                host=_host(),
                pid=remains.pid,
            )
        )
        self._send(list(self._unsaid), TIMEOUT)

    def _send(self, beats: list[Heartbeat], timeout: float) -> None:
        try:
            taken = self._sender.post_heartbeat(msgspec.json.encode(beats), timeout=timeout)
        except DeliveryUnavailableError:
            return
        self._unsaid.clear()
        self._off = not taken


def _born(emitter_id: str) -> datetime | None:
    """Parse the creation time at the start of an emitter id."""
    try:
        return datetime.fromtimestamp(int(emitter_id.partition("_")[2][:12], 16) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _short(text: str | None) -> str | None:
    return None if text is None else text[:256]


@cache
def _host() -> str | None:
    try:
        return _short(socket.gethostname())
    except OSError:
        return None


@cache
def _sdk_version() -> str | None:
    try:
        return version("tracereel")
    except PackageNotFoundError:
        return None
