"""Pool of worker processes: one per listening socket, restarted when one dies."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from socket import socket

import structlog

from tracereel_collector.errors import StartupError
from tracereel_collector.runtime.child_process import child_environment, end_process, wait_ready
from tracereel_collector.runtime.wakeup_pipes import WakeupPipe
from tracereel_collector.startup.worker_bootstrap import Link

log = structlog.get_logger(__name__)

START_SECONDS = 60.0
FIRST_BACKOFF, LAST_BACKOFF = 0.1, 5.0
STEADY_SECONDS = 30.0
KILL_MARGIN = 3.0


@dataclass(slots=True)
class _Slot:
    number: int
    listening: socket
    process: "subprocess.Popen[bytes] | None" = None
    delivered: WakeupPipe | None = None


class WorkerPool:
    """Worker processes; sockets stay open, so connections wait while a worker is replaced."""

    def __init__(self, sockets: list[socket]) -> None:
        self._slots = [_Slot(number, listening) for number, listening in enumerate(sockets)]
        self._stopping = threading.Event()
        self._watchers: list[threading.Thread] = []
        self.restarts = 0

    def start(self, link: Link) -> None:
        """Start all workers and wait until each is ready; raise StartupError if one is not."""
        for slot in self._slots:
            self._launch(slot, link)
        for slot in self._slots:
            self._wait_ready(slot)
        for slot in self._slots:
            watcher = threading.Thread(
                target=self._watch,
                args=(slot, link),
                name=f"watch-worker-{slot.number}",
                daemon=True,
            )
            self._watchers.append(watcher)
            watcher.start()

    def stop(self, *, timeout: float) -> None:
        """Send SIGTERM, wait, then send SIGKILL; idempotent."""
        self._stopping.set()
        processes = [slot.process for slot in self._slots if slot.process is not None]
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + timeout + KILL_MARGIN
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            end_process(process, grace=0)
        for watcher in self._watchers:
            watcher.join(KILL_MARGIN)
        for slot in self._slots:
            self._clear(slot)

    def notify_delivered(self) -> None:
        """Wake up requests in all workers that wait for delivery."""
        for slot in self._slots:
            if (pipe := slot.delivered) is not None:
                pipe.ring()

    def _launch(self, slot: _Slot, link: Link) -> None:
        delivered_fd, wakeup_fd = os.pipe()
        listening_fd = slot.listening.fileno()
        link = replace(link, slot=slot.number, listen_fd=listening_fd, delivered_fd=delivered_fd)
        process = subprocess.Popen(
            [sys.executable, "-m", "tracereel_collector.processes.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(listening_fd, link.bell_fd, delivered_fd),
            env=child_environment(),
        )
        os.close(delivered_fd)
        slot.process, slot.delivered = process, WakeupPipe(wakeup_fd)
        assert process.stdin is not None  # noqa: S101 - stdin is a pipe
        with contextlib.suppress(BrokenPipeError):  # it exited at once; `_wait_ready` reports it
            process.stdin.write(link.line())
            process.stdin.flush()

    def _wait_ready(self, slot: _Slot) -> None:
        process = slot.process
        assert process is not None  # noqa: S101 - launched
        if wait_ready(process, seconds=START_SECONDS, stopping=self._stopping):
            return
        if (status := process.poll()) is not None:
            raise StartupError(f"worker {slot.number} ended with {status} while starting")
        raise StartupError(f"worker {slot.number} was not ready within {START_SECONDS:g} s")

    def _watch(self, slot: _Slot, link: Link) -> None:
        backoff = FIRST_BACKOFF
        while not self._stopping.is_set():
            since = time.monotonic()
            process = slot.process
            status = process.wait() if process is not None else None
            if self._stopping.wait(backoff):
                return
            log.error("worker_died", slot=slot.number, exit_status=status)
            steady = time.monotonic() - since > STEADY_SECONDS
            backoff = FIRST_BACKOFF if steady else min(LAST_BACKOFF, backoff * 2)
            self._clear(slot)
            self.restarts += 1
            try:
                self._launch(slot, link)
                if self._stopping.is_set() and slot.process is not None:
                    slot.process.terminate()  # stop was called during the launch
                    return
                self._wait_ready(slot)
            except (StartupError, OSError) as error:
                log.error("worker_restart_failed", slot=slot.number, reason=str(error))
                if slot.process is not None:
                    slot.process.kill()

    @staticmethod
    def _clear(slot: _Slot) -> None:
        process, pipe = slot.process, slot.delivered
        slot.process = slot.delivered = None
        if pipe is not None:
            pipe.close()
        if process is not None:
            end_process(process, grace=0)
