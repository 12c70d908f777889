"""Cgroups and file systems with little memory or disk, if root can create them."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

CGROUPS = Path("/sys/fs/cgroup")
_ENTER = (
    "import os, sys;"
    "open(sys.argv[1], 'w').write(str(os.getpid()));"
    "os.execv(sys.argv[2], sys.argv[2:])"
)


class MemoryGroup:
    """Cgroup with a memory limit; `command` starts a process in it."""

    def __init__(self, folder, *, version):
        self.folder = folder
        self.version = version

    @property
    def command(self):
        return (sys.executable, "-c", _ENTER, str(self.folder / "cgroup.procs"))

    @property
    def processes(self):
        return [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]

    @property
    def kills(self):
        """Return how many of its processes the kernel killed."""
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        counts = dict(line.split() for line in (self.folder / file).read_text().splitlines())
        return int(counts.get("oom_kill", 0))


@contextmanager
def memory_group(limit):
    """Create a cgroup (v2 or v1) with a byte limit; skip if impossible."""
    group = _make_v2(limit) or _make_v1(limit)
    if group is None:
        pytest.skip("no memory cgroup can be made here: that needs root and a writable hierarchy")
    try:
        yield group
    finally:
        deadline = time.monotonic() + 30
        while group.processes and time.monotonic() < deadline:
            time.sleep(0.05)
        group.folder.rmdir()


def _make_v2(limit):
    try:
        if "memory" not in (CGROUPS / "cgroup.controllers").read_text().split():
            return None
        if "memory" not in (CGROUPS / "cgroup.subtree_control").read_text().split():
            return None
        return MemoryGroup(_limited(CGROUPS, "memory.max", limit), version=2)
    except OSError:
        return None


def _make_v1(limit):
    try:
        return MemoryGroup(_limited(CGROUPS / "memory", "memory.limit_in_bytes", limit), version=1)
    except OSError:
        return None


def _limited(parent, file, limit):
    folder = parent / f"tracereel-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / file).write_text(str(limit))
    except OSError:
        folder.rmdir()
        raise
    return folder


class SmallDisk:
    """File system that can be filled to the last byte."""

    def __init__(self, folder):
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self):
        """Use all free space."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def free(self):
        self._filler.unlink()

    @property
    def free_bytes(self):
        return shutil.disk_usage(self.folder).free


@contextmanager
def small_disk(folder, *, mib):
    """Create a file system of so many MiB; skip if it cannot be mounted."""
    folder.mkdir()
    mount = shutil.which("mount")
    done = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={mib}m,mode=700", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if not done or done.returncode:
        pytest.skip("no file system can be mounted here: that needs root")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
