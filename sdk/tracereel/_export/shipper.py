"""Thread that delivers spooled events to the collector in order.

Own events come first, then those of dead processes for the same destination. Events without an
acknowledgement are sent again; the collector deduplicates them by number. The order of an emitter's
events never changes.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from typing import Final, Protocol

from opentelemetry import context as otel_context

from tracereel._export.backoff import MIN_BACKOFF, backoff
from tracereel._export.heartbeat import TIMEOUT as HEARTBEAT_TIMEOUT
from tracereel._export.heartbeat import EmitterAccount, Heartbeats
from tracereel._export.memory_segments import warn_of_memory
from tracereel._export.orphaned_spools import OrphanedSpools
from tracereel._export.sender import DeliveryUnavailableError, EventsAccepted, Sender
from tracereel._export.spool import Spool
from tracereel._export.spool_reader import SpoolBatch, SpoolReader, dead_emitters, trim_rejected
from tracereel._runtime import gevent_compat, guard, process_exit
from tracereel._runtime.compat import uninstrumented_context
from tracereel._runtime.wakeup import Wakeup
from tracereel.config import Config
from tracereel.heartbeats import State

LINGER: Final = 0.05
"""Seconds between the starts of two requests.

An event after a pause is sent at once; those that follow it soon share the next request. Half of
the 100 ms in which events are to be acknowledged.
"""
HURRY_BYTES: Final = 2 * 1024 * 1024
"""Waiting bytes that end the linger early."""
BUSY_BYTES_PER_SECOND: Final = 3 * 1024 * 1024
"""Rate of events above which requests are `BUSY_LINGER` apart.

Each request makes this thread request the interpreter lock about twenty times, which slows down
recording threads.
"""
BUSY_LINGER: Final = 0.25
SCAN_INTERVAL: Final = 5.0
"""Seconds between scans for spools of dead processes."""
MAX_ADOPTED: Final = 16
_TROUBLE: Final = "shipper:trouble"


@dataclass(frozen=True, slots=True)
class FlushResult:
    """Counts of events by outcome: delivered, waiting in the spool, or dropped.

    `held` events stay in memory until the sampling decision about their run.
    """

    delivered: int
    spooled: int
    dropped: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    """Lines that the collector has processed; `refused` are pairs of line and reason."""

    lines: list[bytes]
    refused: tuple[tuple[bytes, str], ...]


class Ledger(Protocol):
    """Receiver of delivery counts."""

    def answered(self, lines: list[bytes], *, own: bool) -> None:
        """Handle lines that the collector has just acknowledged or refused."""

    def settled(self, *, delivered: int, rejected: int, own: bool) -> None:
        """Count processed events; `own` are those of this process."""

    def lost(self, events: int) -> None:
        """Count own events that were only in memory and were not sent."""

    def drops(self) -> Mapping[str, int]:
        """Return the number of events that were not recorded, by reason."""
        ...


def settle(sender: Sender, lines: list[bytes]) -> Iterator[Settled]:
    """Send lines in order; split refused batches in halves to isolate the refused lines.

    Raises:
        DeliveryUnavailableError: the rest has to wait; lines already yielded are settled.
    """
    waiting = [lines]
    while waiting:
        part = waiting.pop()
        answer = sender.post(part)
        if isinstance(answer, EventsAccepted):
            refused = {index: why for index, why in answer.rejected if 0 <= index < len(part)}
            yield Settled(part, tuple((part[index], why) for index, why in refused.items()))
        elif len(part) == 1:
            yield Settled(part, ((part[0], answer.reason),))
        else:
            middle = len(part) // 2
            waiting += [part[middle:], part[:middle]]


class Shipper:
    """Delivery thread (daemon) of one recorder, started by the first event."""

    def __init__(
        self,
        spool: Spool,
        sender: Sender,
        ledger: Ledger,
        *,
        heartbeats: Heartbeats,
        orphans: OrphanedSpools,
        linger: float = LINGER,
        scan_interval: float = SCAN_INTERVAL,
    ) -> None:
        self._spool = spool
        self._sender = sender
        self._ledger = ledger
        self._heartbeats = heartbeats
        self._orphans = orphans
        self._answers = False
        self._rejected = 0
        self._stop_by = 0.0
        self._linger = linger
        self._scan_interval = scan_interval
        self._own: SpoolReader | None = None
        self._adopted: list[SpoolReader] = []
        self._orphaned: list[Path] = []
        self._thread: gevent_compat.Thread | None = None
        # Re-entrant: a signal handler may make a traced call while its thread holds the lock.
        self._start_lock = gevent_compat.RLock()
        self._stopping = Wakeup()
        self._data = Wakeup()
        self._kick = Wakeup()
        self._lingering = False
        self._requested_at = -inf
        self._is_busy = False
        self._waited_for = 0
        self._progress = gevent_compat.condition()
        self._rescan = Wakeup()
        self._scans = 0
        self._scanning = False
        self._ending = gevent_compat.RLock()
        self._unconnected = 0
        self._settled_bytes = 0
        self.settled = 0
        """Own events that the collector has processed; the rest of `recorded` waits."""

    @classmethod
    def of(cls, config: Config, spool: Spool, ledger: Ledger) -> "Shipper":
        """Create the shipper of a configuration."""
        sender = Sender(config)
        heartbeats, orphans = Heartbeats(config, sender), OrphanedSpools(config, sender)
        return cls(spool, sender, ledger, heartbeats=heartbeats, orphans=orphans)

    @property
    def is_started(self) -> bool:
        """Whether the thread was started, so that it does the delivery."""
        return self._thread is not None

    def wake(self) -> None:
        """Wake up the thread for a new event."""
        if self._thread is None:
            self._start()
        if not self._data.is_set():
            self._data.set()
        elif self._lingering and self._waiting_bytes() >= HURRY_BYTES:
            self._kick.set()

    def drain(self, timeout: float, *, at_exit: bool = False) -> None:
        """Wait until all events recorded so far are processed, at most `timeout` seconds.

        At exit, also wait for the events of dead processes, because short-lived programs would
        otherwise never deliver them. Return early if the collector is unreachable.
        """
        deadline = time.monotonic() + timeout
        target = self._spool.recorded
        with self._start_lock:  # also wait for a thread that is just being started
            if self._thread is None and self.settled < target:
                self._start()
        self._data.set()
        self._kick.set()
        with self._progress:
            self._waited_for += 1
            try:
                self._drain(target, deadline, at_exit=at_exit)
            finally:
                self._waited_for -= 1

    def _drain(self, target: int, deadline: float, *, at_exit: bool) -> None:
        unconnected, scans = self._unconnected, self._scans
        if at_exit:
            # Child processes may have ended since the last scan.
            self._rescan.set()
        while (thread := self._thread) is not None and thread.is_alive():
            if self.settled >= target and (not at_exit or self._is_done_with_others(scans)):
                return
            left = deadline - time.monotonic()
            if left <= 0 or (at_exit and self._unconnected > unconnected):
                return
            self._progress.wait(min(left, 0.5))

    def _is_done_with_others(self, scans: int) -> bool:
        """Return whether a scan after number `scans` is done and its events are delivered."""
        # Keep this order: a scan is due, then runs, then leaves its results.
        return (
            self._scans > scans
            and not self._looks_for_orphans()
            and not self._scanning
            and not self._adopted
        )

    def stop(self, timeout: float) -> None:
        """Stop the thread and wait; a thread that ends later closes the spool."""
        self._stop_by = time.monotonic() + timeout
        self._stopping.set()
        self._data.set()
        self._kick.set()
        thread = self._thread
        if thread is not None:
            thread.join(max(timeout, 0.0))
        if thread is None or not thread.is_alive():
            self._end()

    def _end(self) -> None:
        """Release all resources; a later event opens a new emitter."""
        with self._ending:
            self._sender.close()
            while self._adopted:
                self._adopted.pop().release()
            if lost := self._waiting_in_memory():
                self._ledger.lost(lost)
            self._spool.close(settled=self.settled)

    def count_lost_at_exit(self, report: Callable[[int], FlushResult]) -> FlushResult:
        """Call `report` with the number of events that are lost if the process ends now.

        The lock keeps a hanging thread from counting the same events meanwhile.
        """
        with self._ending:
            return report(self._waiting_in_memory())

    def _waiting_in_memory(self) -> int:
        own = self._own_outbox() if self._spool.memory.numbers() else None
        return own.count_in_memory() if own is not None else 0

    def disown(self) -> None:
        """Release the parent's locks in a forked child."""
        for outbox in self._adopted:
            outbox.disown()

    @property
    def waiting(self) -> tuple[int, int]:
        """Number and bytes of own events that are not processed yet."""
        return max(0, self._spool.recorded - self.settled), max(0, self._waiting_bytes())

    def _waiting_bytes(self) -> int:
        return self._spool.recorded_bytes - self._settled_bytes

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None and not self._stopping.is_set():
                thread = gevent_compat.thread(self._live, name="tracereel-shipper")
                # Set before the start, so that a signal handler does not start a second thread.
                self._thread = thread
                try:
                    thread.start()
                except RuntimeError as error:
                    # Thread limit reached, or the interpreter is shutting down. The events are on
                    # disk; the next event tries again.
                    self._thread = None
                    guard.warn_once(_TROUBLE, "tracereel: events wait on disk: %s", error)
                    return
                process_exit.watch_child()

    def _live(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - debuggers and others raise into threads
            guard.log_message(
                logging.WARNING, "tracereel: the delivering thread was ended by %r", error
            )
        finally:
            if not self._stopping.is_set():
                # The next event or flush starts a new thread.
                self._thread = None

    def _run(self) -> None:
        otel_context.attach(uninstrumented_context())
        next_scan = 0.0
        failures = 0
        while not self._stopping.is_set():
            try:
                due = time.monotonic() >= next_scan or self._rescan.is_set()
                if due or self._looks_for_orphans():
                    self._rescan.clear()
                    self._adopt()
                    next_scan = time.monotonic() + self._scan_interval
                if time.monotonic() >= self._next_beat() and not self._kick.is_set():
                    self._beat("alive")
                shipped = self._ship_next()
                failures = 0
                if not shipped or self._is_empty():
                    self._idle(next_scan)
                elif self._waiting_bytes() < HURRY_BYTES:
                    self._linger_between_requests()
            except DeliveryUnavailableError as trouble:
                self._answers = not trouble.no_answer
                failures = self._rest(failures + 1, trouble)
            except Exception as error:  # noqa: BLE001 - the thread must survive internal errors
                _survive(error)
                failures = self._rest(failures + 1, DeliveryUnavailableError(repr(error)))
        if self._next_beat() < inf and (left := self._stop_by - time.monotonic()) > 0.0:
            self._beat("ended", timeout=min(left, HEARTBEAT_TIMEOUT))
        self._end()

    def _next_beat(self) -> float:
        """Return when the next heartbeat is due; `inf` without a collector or an emitter."""
        if self._answers and self._spool.emitter_id is not None:
            return self._heartbeats.due_at
        return inf

    def _beat(self, state: State, *, timeout: float = HEARTBEAT_TIMEOUT) -> None:
        emitter_id = self._spool.emitter_id
        if emitter_id is not None:
            # Read `settled` first: events recorded in between count as waiting, not missing.
            settled = self.settled
            account = EmitterAccount(
                emitter_id, self._spool.sequence, settled, self._rejected, self._ledger.drops()
            )
            self._heartbeats.beat(account, state, timeout=timeout)

    def _idle(self, next_scan: float) -> None:
        """Sleep until an event, a scan or a heartbeat is due."""
        until = min(next_scan, self._next_beat())
        if self._data.wait(max(until - time.monotonic(), 0.0)):
            self._linger_between_requests()
            # Clear before reading: an event that arrives now wakes up the thread again.
            self._data.clear()

    def _is_empty(self) -> bool:
        """Return whether nothing is left to read, without looking at the disk."""
        return self._spool.recorded == self.settled and not self._adopted

    def _linger_between_requests(self) -> None:
        """Let events gather until the next request is due, unless a flush is waiting."""
        linger = BUSY_LINGER if self._is_busy else self._linger
        left = self._requested_at + linger - time.monotonic()
        if left > 0.0 and self._waited_for == 0:
            self._lingering = True
            self._kick.wait(left)
            self._lingering = False
        self._kick.clear()

    def _begin_request(self, batch: SpoolBatch) -> None:
        """Remember when a request begins, and whether events come fast."""
        before, self._requested_at = self._requested_at, time.monotonic()
        size, seconds = sum(map(len, batch.lines)), self._requested_at - before
        self._is_busy = size >= BUSY_BYTES_PER_SECOND * max(seconds, self._linger)

    def _rest(self, failures: int, trouble: DeliveryUnavailableError) -> int:
        """Wait before the next attempt and return the failure count to continue with.

        A flush shortens the wait.
        """
        guard.warn_once(
            _TROUBLE, "tracereel: events wait on disk, delivery fails: %s", trouble.reason
        )
        with self._progress:
            self._unconnected += trouble.no_connection
            self._progress.notify_all()
        if self._kick.wait(backoff(failures, trouble.retry_after)):
            self._kick.clear()
            # A flush is waiting: keep pauses short.
            self._stopping.wait(MIN_BACKOFF / 2)
            return 0
        return failures

    def _looks_for_orphans(self) -> bool:
        """Return whether a scan for orphaned spools is due; only while the collector responds."""
        return self._answers and self._orphans.is_due

    def _adopt(self) -> None:
        self._scanning = True
        try:
            self._spool.refresh()
            trim_rejected(self._spool.directory)
            if self._looks_for_orphans():
                self._orphaned = self._orphans.find()
            for directory in [self._spool.directory, *self._orphaned]:
                room = MAX_ADOPTED - len(self._adopted)
                self._adopted += islice(dead_emitters(directory), room)
        finally:
            with self._progress:
                self._scans += 1
                self._scanning = False
                self._progress.notify_all()

    def _ship_next(self) -> bool:
        """Send one batch, own events first; return False if none is left."""
        if self._spool.trouble is not None:
            warn_of_memory(self._spool.directory, self._spool.trouble)
            self._spool.trouble = None
        own = self._own_outbox()
        if own is not None and self._ship(own, is_own=True):
            return True
        while self._adopted:
            try:
                if self._ship(self._adopted[0], is_own=False):
                    return True
                self._heartbeats.recovered(self._adopted[0].remains())
                self._adopted[0].finish()
            except OSError as error:
                # Its files cannot be read now: continue with others; a later scan finds it again.
                _survive(error)
                self._adopted[0].release()
            self._adopted.pop(0)
            with self._progress:
                self._progress.notify_all()
        return False

    def _own_outbox(self) -> SpoolReader | None:
        emitter_id = self._spool.emitter_id
        if emitter_id is None:
            return None
        if self._own is None or self._own.emitter_id != emitter_id:
            self._own = SpoolReader(
                self._spool.directory,
                emitter_id,
                memory=self._spool.memory,
                on_unlink=self._spool.released,
            )
        return self._own

    def _ship(self, outbox: SpoolReader, *, is_own: bool) -> bool:
        batch = outbox.read()
        if batch is None:
            return False
        self._begin_request(batch)
        for settled in settle(self._sender, batch.lines):
            for line, reason in settled.refused:
                outbox.set_aside(line, reason)
            outbox.settle(settled.lines)
            rejected = len(settled.refused)
            self._ledger.answered(settled.lines, own=is_own)
            self._ledger.settled(
                delivered=len(settled.lines) - rejected, rejected=rejected, own=is_own
            )
            self._orphans.remember_tenant()
            guard.forget_warning(_TROUBLE)
            self._answers = True
            with self._progress:
                if is_own:
                    self._rejected += rejected
                    self.settled += len(settled.lines)
                    self._settled_bytes += sum(map(len, settled.lines))
                self._progress.notify_all()
        return True


def _survive(error: Exception) -> None:
    try:
        guard.report("shipper", error)
    except Exception:  # noqa: BLE001 - raised in tests only; the thread continues
        guard.log_message(
            logging.ERROR, "tracereel: internal error in the shipper", with_traceback=True
        )
