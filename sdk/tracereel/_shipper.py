"""Delivery: a thread that carries spooled events to the collector, for ever and in order.

Own events come first, then those that dead processes left for the same destination. The collector
drops what it already has by number, so whatever is in doubt is sent again, and the order of an
emitter's events is never changed.
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
from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,
    _SUPPRESS_INSTRUMENTATION_KEY,
)

from tracereel import _exits, _guard, _native
from tracereel._bell import Bell
from tracereel._heartbeat import TIMEOUT as HEARTBEAT_TIMEOUT
from tracereel._heartbeat import Account, Heartbeats
from tracereel._memory_segments import warn_of_memory
from tracereel._outbox import Outbox, dead_emitters, trim_rejected
from tracereel._retrying import MIN_BACKOFF, backoff
from tracereel._sender import Accepted, Sender, UnavailableError
from tracereel._spool import Spool
from tracereel.config import Config
from tracereel.heartbeats import State

LINGER: Final = 0.1
"""Seconds a first event waits for company."""
HURRY_BYTES: Final = 2 * 1024 * 1024
"""So much waiting ends the linger."""
MUCH_BYTES: Final = 512 * 1024
"""Behind a batch of so much the linger is `LONGER` times as long: each request makes this thread ask
for the interpreter's lock some twenty times, and who records meanwhile wakes it in vain until it has it."""
LONGER: Final = 2.5
SCAN_INTERVAL: Final = 5.0
"""Seconds between looks for spools of dead processes."""
MAX_ADOPTED: Final = 16
_TROUBLE: Final = "shipper:trouble"


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What became of events: the collector has them, they wait on disk, or they were not taken.

    `held` are those that sampling keeps in memory until it is known whether their run matters.
    """

    delivered: int
    spooled: int
    dropped: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    """Lines the collector has answered for; some may be refused: (line, reason)."""

    lines: list[bytes]
    refused: tuple[tuple[bytes, str], ...]


class Ledger(Protocol):
    """Who is told about the end of events."""

    def answered(self, lines: list[bytes], *, own: bool) -> None:
        """The collector has just answered for these lines."""

    def settled(self, *, delivered: int, rejected: int, own: bool) -> None:
        """Some events have been answered for; `own` are those of this process."""

    def lost(self, events: int) -> None:
        """So many own events were in memory only and have not been sent."""

    def drops(self) -> Mapping[str, int]:
        """Events that were not recorded, by reason."""
        ...


def settle(sender: Sender, lines: list[bytes]) -> Iterator[Settled]:
    """Send lines in order, halving what is refused until the culprits stand alone.

    Raises:
        UnavailableError: the rest has to wait; what was yielded before is settled.
    """
    waiting = [lines]
    while waiting:
        part = waiting.pop()
        answer = sender.post(part)
        if isinstance(answer, Accepted):
            refused = {index: why for index, why in answer.rejected if 0 <= index < len(part)}
            yield Settled(part, tuple((part[index], why) for index, why in refused.items()))
        elif len(part) == 1:
            yield Settled(part, ((part[0], answer.reason),))
        else:
            middle = len(part) // 2
            waiting += [part[middle:], part[:middle]]


class Shipper:
    """The delivering thread of one recorder; started by the first event, a daemon."""

    def __init__(
        self,
        spool: Spool,
        sender: Sender,
        ledger: Ledger,
        *,
        heartbeats: Heartbeats,
        linger: float = LINGER,
        scan_interval: float = SCAN_INTERVAL,
    ) -> None:
        self._spool = spool
        self._sender = sender
        self._ledger = ledger
        self._heartbeats = heartbeats
        self._answers = False
        self._rejected = 0
        self._stop_by = 0.0
        self._linger = linger
        self._scan_interval = scan_interval
        self._own: Outbox | None = None
        self._adopted: list[Outbox] = []
        self._thread: _native.Thread | None = None
        # Re-entrant: a signal handler may make a traced call while its own thread is in here.
        self._start_lock = _native.RLock()
        self._stopping = Bell()
        self._data = Bell()
        self._kick = Bell()
        self._lingering = False
        self._last_bytes = 0
        self._waited_for = 0
        self._progress = _native.condition()
        self._rescan = Bell()
        self._scans = 0
        self._ending = _native.RLock()
        self._unconnected = 0
        self._settled_bytes = 0
        self.settled = 0
        """Own events answered for; the spool's `recorded` minus this is waiting."""

    @property
    def is_started(self) -> bool:
        """Whether there is or was a thread, so that nothing has to be delivered without it."""
        return self._thread is not None

    def wake(self) -> None:
        """There is a new event."""
        if self._thread is None:
            self._start()
        if not self._data.is_set():
            self._data.set()
        elif self._lingering and self._waiting_bytes() >= HURRY_BYTES:
            self._kick.set()

    def drain(self, timeout: float, *, at_exit: bool = False) -> None:
        """Wait until what is recorded now has been answered for, at most `timeout` seconds.

        At exit, what dead processes left is waited for as well (programs that never live long would
        otherwise never deliver it), and a destination that cannot be reached is not waited for.
        """
        deadline = time.monotonic() + timeout
        target = self._spool.recorded
        with self._start_lock:  # a thread that is just being started is waited for as well
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
            # Children of this process may have ended since the last look.
            self._rescan.set()
        while (thread := self._thread) is not None and thread.is_alive():
            looked = not at_exit or (self._scans > scans and not self._adopted)
            if self.settled >= target and looked:
                return
            left = deadline - time.monotonic()
            if left <= 0 or (at_exit and self._unconnected > unconnected):
                return
            self._progress.wait(min(left, 0.5))

    def stop(self, timeout: float) -> None:
        """Ask the thread to end and wait for it; where it ends later, it closes the spool then."""
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
        """Let go of everything; events that still come afterwards are left by the next call."""
        with self._ending:
            self._sender.close()
            while self._adopted:
                self._adopted.pop().release()
            if lost := self._waiting_in_memory():
                self._ledger.lost(lost)
            self._spool.close(settled=self.settled)

    def told_at_the_end(self, tell: Callable[[int], FlushResult]) -> FlushResult:
        """What is told with the number of events that are lost if the process ends now.

        A thread that hangs has not counted them yet, and does not do so meanwhile.
        """
        with self._ending:
            return tell(self._waiting_in_memory())

    def _waiting_in_memory(self) -> int:
        own = self._own_outbox() if self._spool.memory.numbers() else None
        return own.count_in_memory() if own is not None else 0

    def disown(self) -> None:
        """In a forked child: let go of what the parent's thread holds."""
        for outbox in self._adopted:
            outbox.disown()

    @property
    def waiting(self) -> tuple[int, int]:
        """Own events that have not been answered for, and their bytes."""
        return max(0, self._spool.recorded - self.settled), max(0, self._waiting_bytes())

    def _waiting_bytes(self) -> int:
        return self._spool.recorded_bytes - self._settled_bytes

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None and not self._stopping.is_set():
                thread = _native.thread(self._live, name="tracereel-shipper")
                # Known before it runs: whoever comes back in from a signal handler starts no other.
                self._thread = thread
                try:
                    thread.start()
                except RuntimeError as error:
                    # No more threads for this process, or none so late in its life: the events are
                    # on disk, and whatever comes next tries again.
                    self._thread = None
                    _guard.warn_once(_TROUBLE, "tracereel: events wait on disk: %s", error)
                    return
                _exits.watch_child()

    def _live(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - thrown into threads by debuggers and the like
            _guard.say(logging.WARNING, "tracereel: the delivering thread was ended by %r", error)
        finally:
            if not self._stopping.is_set():
                # The next event, or a flush, starts another.
                self._thread = None

    def _run(self) -> None:
        otel_context.attach(_quiet())
        next_scan = 0.0
        failures = 0
        while not self._stopping.is_set():
            try:
                if time.monotonic() >= next_scan or self._rescan.is_set():
                    self._rescan.clear()
                    self._adopt()
                    next_scan = time.monotonic() + self._scan_interval
                if time.monotonic() >= self._next_beat() and not self._kick.is_set():
                    self._beat("alive")
                shipped = self._ship_next()
                failures = 0
                if not shipped:
                    self._idle(next_scan)
                elif self._waiting_bytes() < HURRY_BYTES:
                    self._gather()
            except UnavailableError as trouble:
                self._answers = not trouble.no_answer
                failures = self._rest(failures + 1, trouble)
            except Exception as error:  # noqa: BLE001 - the thread must outlive our own mistakes
                _survive(error)
                failures = self._rest(failures + 1, UnavailableError(repr(error)))
        if self._next_beat() < inf and (left := self._stop_by - time.monotonic()) > 0.0:
            self._beat("ended", timeout=min(left, HEARTBEAT_TIMEOUT))
        self._end()

    def _next_beat(self) -> float:
        """When to say something; never while nobody answers, or there is nothing to speak of."""
        if self._answers and self._spool.emitter_id is not None:
            return self._heartbeats.due_at
        return inf

    def _beat(self, state: State, *, timeout: float = HEARTBEAT_TIMEOUT) -> None:
        emitter_id = self._spool.emitter_id
        if emitter_id is not None:
            # Settled first: what is recorded in between is waiting, not missing.
            settled = self.settled
            account = Account(
                emitter_id, self._spool.sequence, settled, self._rejected, self._ledger.drops()
            )
            self._heartbeats.beat(account, state, timeout=timeout)

    def _idle(self, next_scan: float) -> None:
        """Sleep until there is an event, then let it have company."""
        until = min(next_scan, self._next_beat())
        if self._data.wait(max(until - time.monotonic(), 0.0)):
            self._gather()
            # Cleared before reading: an event that comes now wakes us again.
            self._data.clear()

    def _gather(self) -> None:
        """Let events have company, unless somebody waits for them: a request has its own price."""
        if self._waited_for == 0:
            self._lingering = True
            self._kick.wait(self._linger * (LONGER if self._last_bytes >= MUCH_BYTES else 1.0))
            self._lingering = False
        self._kick.clear()

    def _rest(self, failures: int, trouble: UnavailableError) -> int:
        """Wait before the next attempt; a flush shortens it. Gives the failures to go on with."""
        _guard.warn_once(
            _TROUBLE, "tracereel: events wait on disk, delivery fails: %s", trouble.reason
        )
        with self._progress:
            self._unconnected += trouble.no_connection
            self._progress.notify_all()
        if self._kick.wait(backoff(failures, trouble.retry_after)):
            self._kick.clear()
            # Somebody waits for us: short pauses, but pauses.
            self._stopping.wait(MIN_BACKOFF / 2)
            return 0
        return failures

    def _adopt(self) -> None:
        try:
            self._spool.refresh()
            trim_rejected(self._spool.directory)
            room = MAX_ADOPTED - len(self._adopted)
            self._adopted += islice(dead_emitters(self._spool.directory), room)
        finally:
            with self._progress:
                self._scans += 1
                self._progress.notify_all()

    def _ship_next(self) -> bool:
        """Send one batch: of our own, or of the oldest dead emitter; false if there is none."""
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
                # Its files cannot be read now: others first, and a later look finds it again.
                _survive(error)
                self._adopted[0].release()
            self._adopted.pop(0)
            with self._progress:
                self._progress.notify_all()
        return False

    def _own_outbox(self) -> Outbox | None:
        emitter_id = self._spool.emitter_id
        if emitter_id is None:
            return None
        if self._own is None or self._own.emitter_id != emitter_id:
            self._own = Outbox(
                self._spool.directory,
                emitter_id,
                memory=self._spool.memory,
                on_unlink=self._spool.released,
            )
        return self._own

    def _ship(self, outbox: Outbox, *, is_own: bool) -> bool:
        batch = outbox.read()
        if batch is None:
            return False
        for settled in settle(self._sender, batch.lines):
            for line, reason in settled.refused:
                outbox.set_aside(line, reason)
            outbox.settle(settled.lines)
            rejected = len(settled.refused)
            self._ledger.answered(settled.lines, own=is_own)
            self._ledger.settled(
                delivered=len(settled.lines) - rejected, rejected=rejected, own=is_own
            )
            _guard.forget_warning(_TROUBLE)
            self._answers = True
            with self._progress:
                if is_own:
                    self._rejected += rejected
                    self.settled += len(settled.lines)
                    self._last_bytes = sum(map(len, settled.lines))
                    self._settled_bytes += self._last_bytes
                self._progress.notify_all()
        return True


def _survive(error: Exception) -> None:
    try:
        _guard.report("shipper", error)
    except Exception:  # noqa: BLE001 - raised in our tests only; the thread goes on all the same
        _guard.say(logging.ERROR, "tracereel: internal error in the shipper", with_traceback=True)


def ship_leftovers(
    config: Config,
    *,
    timeout: float = 30.0,
    progress: Callable[[FlushResult], None] | None = None,
    sender: Sender | None = None,
    patient: bool = True,
) -> FlushResult:
    """Deliver what dead processes have left for this destination; spools in use are not touched.

    `progress` is called after each answer with what is delivered and dropped, and waiting, so far.
    Without patience, a destination where nobody listens is not tried again.
    """
    deadline = time.monotonic() + timeout
    sender = sender or Sender(config, timeout=min(timeout, 10.0))
    heartbeats = Heartbeats(config, sender)
    waiting = _count_left(config.destination_dir)
    delivered = dropped = failures = 0
    try:
        # One emitter at a time: there may be more of them than a process may open files.
        for outbox in dead_emitters(config.destination_dir):
            while time.monotonic() < deadline:
                try:
                    batch = outbox.read()
                    if batch is None:
                        heartbeats.recovered(outbox.remains())
                        outbox.finish()
                        break
                    for settled in settle(sender, batch.lines):
                        failures = 0
                        for line, reason in settled.refused:
                            outbox.set_aside(line, reason)
                        outbox.settle(settled.lines)
                        dropped += len(settled.refused)
                        delivered += len(settled.lines) - len(settled.refused)
                        waiting = max(0, waiting - len(settled.lines))
                        if progress is not None:
                            progress(FlushResult(delivered, waiting, dropped))
                except OSError as error:
                    _guard.say(logging.WARNING, "tracereel: cannot read a spool: %s", error)
                    break
                except UnavailableError as trouble:
                    if trouble.no_connection and not patient:
                        deadline = 0.0
                        break
                    failures += 1
                    pause = backoff(failures, trouble.retry_after)
                    time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
            outbox.release()
    finally:
        sender.close()
    return FlushResult(delivered, waiting, dropped)


def ship_at_exit(config: Config, timeout: float) -> None:
    """Deliver what is left without a thread: some Pythons start none when the program is ending."""
    if timeout > 0.0 and config.destination_dir.is_dir():
        quiet = otel_context.attach(_quiet())
        try:
            ship_leftovers(config, timeout=timeout, patient=False)
        finally:
            otel_context.detach(quiet)


def _quiet() -> otel_context.Context:
    """A context that has the instrumentations of HTTP clients look away."""
    quiet = otel_context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)
    return otel_context.set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True, quiet)


def _count_left(directory: Path) -> int:
    total = 0
    for outbox in dead_emitters(directory):
        total += outbox.count()
        outbox.release()
    return total
