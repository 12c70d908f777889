"""Memory that this process may use: the machine's, or the limit of its cgroups."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

PROC: Final = Path("/proc/self")
_FILES: Final = {
    "cgroup2": ("memory.max", "memory.high"),
    "cgroup": ("memory.limit_in_bytes",),
}
"""Files with a limit in bytes, by file system type (cgroup version 2 and 1)."""


@dataclass(frozen=True, slots=True)
class _Mount:
    """A cgroup hierarchy with a memory controller, as this process sees it."""

    kind: str
    root: PurePosixPath
    """Mounted root of the hierarchy: in a container, often the container's cgroup."""
    point: Path


def machine_memory() -> int:
    """Return the bytes of memory that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def usable_memory(*, proc: Path = PROC, machine_bytes: int | None = None) -> int:
    """Return the bytes of memory that this process may use.

    The minimum of the machine's memory and of the limits of this process's cgroups and their
    parents, as far as they are visible.
    """
    return min([machine_bytes or machine_memory(), *_limits(proc)])


def _limits(proc: Path) -> Iterator[int]:
    try:
        mounts = list(_mounts((proc / "mountinfo").read_text(encoding="utf-8")))
        groups = _groups((proc / "cgroup").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return  # not Linux, or not readable: only the machine's memory is known
    for mount in mounts:
        directory = mount.point
        group = groups.get(mount.kind)
        if group is not None and group.is_relative_to(mount.root):
            directory /= group.relative_to(mount.root)
        while True:
            for name in _FILES[mount.kind]:
                if (limit := _read(directory / name)) is not None:
                    yield limit
            if directory == mount.point:
                break
            directory = directory.parent


def _mounts(text: str) -> Iterator[_Mount]:
    """Parse `/proc/self/mountinfo`: … root point options … - type source options."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, described = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(described) < 3:
            continue
        kind, options = described[0], described[2].split(",")
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options):
            yield _Mount(kind, PurePosixPath(_unescaped(fields[3])), Path(_unescaped(fields[4])))


def _groups(text: str) -> dict[str, PurePosixPath]:
    """Parse `/proc/self/cgroup`: `number:controllers:path`; version 2 has no controllers."""
    found: dict[str, PurePosixPath] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            found["cgroup2"] = PurePosixPath(path)
        elif "memory" in controllers.split(","):
            found["cgroup"] = PurePosixPath(path)
    return found


def _unescaped(path: str) -> str:
    """Replace mountinfo's octal escapes of spaces and similar characters."""
    for code in ("040", "011", "012", "134"):
        path = path.replace(f"\\{code}", chr(int(code, 8)))
    return path


def _read(file: Path) -> int | None:
    """Return the limit in a file; None if there is no file or no limit."""
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() and int(text) > 0 else None
