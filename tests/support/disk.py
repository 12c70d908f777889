"""SQLite VFS that logs every write and sync, and can fail selected ones.

SQLite accesses its files through a table of functions (a VFS). This one is the system's VFS with four
functions replaced, so that the product's code and its SQLite are tested unchanged.
"""

import _sqlite3
import ctypes
import random
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from dataclasses import dataclass
from pathlib import Path

SECTOR = 512
FAILURES = {"write": 778, "short": 13, "sync": 1034, "truncate": 1546, "delete": 2570}
"""SQLite's codes: IOERR_WRITE, FULL, IOERR_FSYNC, IOERR_TRUNCATE, IOERR_DELETE."""

_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
# Names as addresses: the system's functions keep them, and a Python copy would be freed.
_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_DELETE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)


class _Methods(ctypes.Structure):
    _fields_ = [
        ("version", c_int),
        *((name, c_void_p) for name in ("close", "read")),
        ("write", _WRITE),
        ("truncate", _TRUNCATE),
        ("sync", _SYNC),
        *((f"rest{number}", c_void_p) for number in range(13)),
    ]


class _File(ctypes.Structure):
    _fields_ = [("methods", POINTER(_Methods))]


class _Vfs(ctypes.Structure):
    _fields_ = [
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _OPEN),
        ("delete", _DELETE),
        *((f"rest{number}", c_void_p) for number in range(14)),
    ]


def _name(address):
    return Path(ctypes.string_at(address).decode()).name


class Disk:
    """Log of SQLite's file operations, in order; `fault(what, file)` selects failures."""

    def __init__(self):
        self.log = []
        """("write", file, offset, data), ("truncate", file, size), ("sync", file), ("delete", file);
        ("folder", name) for a directory sync, and ("mark", value) set by a test."""
        self.fault = lambda _what, _file: None
        self._names = {}
        self._tables = {}

    def mark(self, what):
        self.log.append(("mark", what))

    def opened(self, vfs, name, file, flags, out):
        status = _original.contents.open(vfs, name, file, flags, out)
        if status == 0 and name:
            self._names[file] = _name(name)
            handle = ctypes.cast(file, POINTER(_File)).contents
            handle.methods = ctypes.pointer(self._table(handle.methods))
        return status

    def _table(self, methods):
        address = ctypes.addressof(methods.contents)
        if address not in self._tables:
            ours = _Methods.from_buffer_copy(methods.contents)
            system = _Methods.from_buffer_copy(methods.contents)

            def write(file, data, size, offset):
                name = self._names[file]
                given = ctypes.string_at(data, size)
                what = self.fault("write", name)
                if what == "short":
                    given = given[: size // 2]
                if what != "write":
                    self.log.append(("write", name, offset, given))
                    status = system.write(file, data, len(given), offset)
                return FAILURES[what] if what else status

            def truncate(file, size):
                what = self.fault("truncate", self._names[file])
                if what:
                    return FAILURES[what]
                self.log.append(("truncate", self._names[file], size))
                return system.truncate(file, size)

            def sync(file, flags):
                what = self.fault("sync", self._names[file])
                if what:
                    return FAILURES[what]
                self.log.append(("sync", self._names[file]))
                return system.sync(file, flags)

            ours.write, ours.truncate, ours.sync = _WRITE(write), _TRUNCATE(truncate), _SYNC(sync)
            self._tables[address] = ours, system
            _kept.append((ours, system))
        return self._tables[address][0]

    def deleted(self, vfs, name, sync_folder):
        what = self.fault("delete", _name(name))
        if what:
            return FAILURES[what]
        self.log.append(("delete", _name(name)))
        return _original.contents.delete(vfs, name, sync_folder)


_library = ctypes.CDLL(_sqlite3.__file__) if hasattr(_sqlite3, "__file__") else ctypes.CDLL(None)
_kept = []
"""Objects that SQLite may still point to."""


def _find():
    _library.sqlite3_vfs_find.restype = POINTER(_Vfs)
    _library.sqlite3_vfs_find.argtypes = [c_char_p]
    _library.sqlite3_vfs_register.argtypes = [c_void_p, c_int]
    _library.sqlite3_vfs_unregister.argtypes = [c_void_p]
    return _library.sqlite3_vfs_find(None)


try:
    _original = _find()
except AttributeError:  # this Python has SQLite linked statically
    _original = None
available = _original is not None


@contextmanager
def watched():
    """Put all SQLite files opened within the block on this disk."""
    disk = Disk()
    vfs = _Vfs.from_buffer_copy(_original.contents)
    vfs.name = f"watched{len(_kept)}".encode()
    vfs.open, vfs.delete = _OPEN(disk.opened), _DELETE(disk.deleted)
    _kept.append((vfs, disk))
    _library.sqlite3_vfs_register(ctypes.addressof(vfs), 1)
    try:
        yield disk
    finally:
        _library.sqlite3_vfs_unregister(ctypes.addressof(vfs))
        _library.sqlite3_vfs_register(ctypes.addressof(_original.contents), 1)


@dataclass
class _Inode:
    """One incarnation of a file: durable data, and pending writes."""

    durable: bytearray
    pending: list
    synced: bool = False


def after_power_cut(log, cut, rnd):
    """Return the files as a power cut after `cut` log entries may leave them.

    Synced data is present. Of unsynced data, any sectors may be present, in any order. A deleted file may
    be back unless its successor was synced since (which syncs the directory too).
    """
    lives = {}
    for what, *rest in log[:cut]:
        if what == "mark":
            continue
        if what == "folder":
            for files in lives.values():
                del files[:-1]
            continue
        name = rest[0]
        files = lives.setdefault(name, [])
        if what == "delete":
            files.append(None)
            continue
        if not files or files[-1] is None:
            files.append(_Inode(bytearray(), []))
        inode = files[-1]
        if what == "sync":
            for change in inode.pending:
                _apply(inode.durable, *change)
            inode.pending, inode.synced = [], True
            files[:] = [inode]
        else:
            inode.pending.append((what, *rest[1:]))
    return {
        name: image
        for name, files in lives.items()
        if (image := _image(rnd.choice(files), rnd)) is not None
    }


def _image(inode, rnd):
    if inode is None:
        return None
    data = bytearray(inode.durable)
    share = rnd.choice([0.0, 0.1, 0.5, 0.9, 1.0])
    pieces = []
    for what, *rest in inode.pending:
        if what == "write":
            offset, given = rest
            pieces += [
                ("write", offset + start, given[start : start + SECTOR])
                for start in range(0, len(given), SECTOR)
            ]
        else:
            pieces.append((what, *rest))
    survived = [piece for piece in pieces if rnd.random() < share]
    if rnd.random() < 0.5:
        rnd.shuffle(survived)
    for piece in survived:
        _apply(data, *piece)
    return bytes(data)


def _apply(data, what, *rest):
    if what == "truncate":
        del data[rest[0] :]
        data.extend(bytes(rest[0] - len(data)))
        return
    offset, given = rest
    data.extend(bytes(max(0, offset + len(given) - len(data))))
    data[offset : offset + len(given)] = given


def seeded(seed):
    """Return a separate random generator."""
    return random.Random(seed)
