"""Processes that the kernel kills first when memory is short: engine, then a reserve.

At a cgroup's limit, the kernel kills the process with the highest score, the engine. It kills no other
process while the engine exits. But once all threads of the engine are exiting, the kernel ignores it,
a moment before its memory is free: an allocation of the collector in between kills another process.
The reserve is that process. It has one thread, so it stays visible until its memory is free.
"""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from tracereel_collector.runtime.child_process import end_process

RESERVE_BYTES: Final = 32 * 1024 * 1024
_FIRST: Final = 1000
"""Highest possible score; raising a score needs no privilege."""
_HOLD: Final = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
held = bytearray(b"1") * int(sys.argv[1])
sys.stdin.buffer.read()
"""
"""Code of the reserve process, which exits when its parent closes stdin or dies."""


def kill_first(pid: int) -> None:
    """Make the kernel kill a child of this process first; a no-op outside of Linux."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(_FIRST), encoding="ascii")


class MemoryReserve:
    """Process that holds some megabytes for the kernel to reclaim."""

    def __init__(self, size: int = RESERVE_BYTES) -> None:
        self._size = size
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Pid of the reserve process; None if there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def keep(self) -> bool:
        """Start the reserve process if needed; return whether the kernel had killed it."""
        if self.pid is not None:
            return False
        was_taken = self._process is not None and self._process.returncode == -signal.SIGKILL
        self.give_up()
        with contextlib.suppress(OSError):  # without a new process there is no reserve for now
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-I", "-S", "-c", _HOLD, str(self._size)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            kill_first(self._process.pid)
        return was_taken

    def give_up(self) -> None:
        """Kill the reserve process, if there is one; safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            end_process(process, grace=0)
