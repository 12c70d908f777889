"""Peak memory of processes during a block."""

import contextlib
import threading
from pathlib import Path

import psutil

MIB = 1 << 20


class Peak:
    """Highest resident memory of a process within a block, in bytes."""

    def __init__(self, pid):
        self._pid = pid
        self.bytes = 0

    def note(self, name="VmHWM"):
        with contextlib.suppress(OSError):  # it has ended
            for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
                if line.startswith(f"{name}:"):
                    self.bytes = max(self.bytes, int(line.split()[1]) * 1024)


@contextlib.contextmanager
def peaks_of(*pids):
    """Measure processes by the kernel's peak where it can be reset, else by sampling."""
    peaks, stop = [Peak(pid) for pid in pids], threading.Event()

    def sample():
        while not stop.wait(0.005):
            for peak in peaks:
                peak.note("VmRSS")

    sampling = threading.Thread(target=sample)
    try:
        for pid in pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        is_reset = True
    except OSError:
        is_reset = False
        sampling.start()
    try:
        yield peaks
    finally:
        stop.set()
        if is_reset:
            for peak in peaks:
                peak.note()
        else:
            sampling.join()


def resident(pid):
    """Return the memory of a process now, in bytes."""
    return psutil.Process(pid).memory_info().rss
