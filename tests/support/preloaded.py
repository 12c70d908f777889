"""`tracereel serve` as a fork of a process that has imported it: importing takes most of a start.

The child is a process of its own that runs the same `main`. It has the environment and directory that
it is given; what modules read of the environment while they are imported must not differ.
"""

import atexit
import contextlib
import functools
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

from tracereel.cli import main

ROOT = Path(__file__).resolve().parents[2]
LOADED = (
    "tracereel_collector.commands.serve",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
)
READ_AT_IMPORT = ("TRACEREEL_CRASH_AT",)
STATUS = struct.Struct("i")
MOST_BYTES = 1 << 20


def can_start(environ):
    """Return whether a fork is like a new process: nothing differs that is read during imports."""
    _, given = _preloaded()
    names = {name for name, _ in environ.items() ^ given.items()} - {"PYTEST_CURRENT_TEST"}
    return all(name.startswith("TRACEREEL_") for name in names) and not names & {*READ_AT_IMPORT}


class ForkedProcess:
    """Child of the preloaded process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, arguments, environ):
        self.args = [sys.executable, "-m", "tracereel", *arguments]
        self.returncode = None
        self._lock = threading.Lock()
        ours, out = os.pipe()
        self._status, status = os.pipe()
        self.stdout = os.fdopen(ours, encoding="utf-8", errors="replace")
        message = {"arguments": arguments, "environ": environ, "directory": str(Path.cwd())}
        link, _ = _preloaded()
        with _turn:
            socket.send_fds(link, [json.dumps(message).encode()], [out, status])
            (self.pid,) = STATUS.unpack(link.recv(STATUS.size))
        os.close(out)
        os.close(status)

    def poll(self):
        """Return the exit status, or None while it runs."""
        return self._ended(0)

    def wait(self, timeout=None):
        """Wait for the end and return the exit status."""
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def send_signal(self, number):
        """Send a signal unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self):
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def _ended(self, timeout):
        with self._lock:
            if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
                sent = os.read(self._status, STATUS.size)
                os.close(self._status)
                self.returncode = STATUS.unpack(sent)[0]
            return self.returncode


_turn = threading.Lock()


@functools.cache
def _preloaded():
    """Start the process that is forked, which ends with this one; return its socket and environment."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = [sys.executable, "-m", "tests.support.preloaded", str(theirs.fileno())]
    environ = {name: text for name, text in os.environ.items() if not name.startswith("TRACEREEL_")}
    process = subprocess.Popen(program, pass_fds=[theirs.fileno()], cwd=ROOT, env=environ)
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours, environ


def _serve_forks(link):
    """Fork for each message; return in the child, and exit when the link is closed."""
    waiting = {}
    wakeup, woken = os.pipe()
    signal.signal(signal.SIGCHLD, lambda *_: os.write(woken, b"x"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready = select.select([link, wakeup], [], [])[0]
        if wakeup in ready:
            os.read(wakeup, 4096)
            _report(waiting)
        if link not in ready:
            continue
        sent, descriptors, _, _ = socket.recv_fds(link, MOST_BYTES, 2)
        if not sent:
            sys.exit()
        out, status = descriptors
        message = json.loads(sent)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for descriptor in (link.detach(), wakeup, woken, status, *waiting.values()):
                os.close(descriptor)
            return message, out
        os.close(out)
        waiting[pid] = status
        link.send(STATUS.pack(pid))


def _report(waiting):
    """Write the exit statuses of the children that have ended."""
    for pid in list(waiting):
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            with contextlib.suppress(BrokenPipeError):
                os.write(waiting[pid], STATUS.pack(os.waitstatus_to_exitcode(code)))
            os.close(waiting.pop(pid))


def _run(message, out):
    """Run the command of a message as if this were its process."""
    for descriptor in (1, 2):
        os.dup2(out, descriptor)
    os.close(out)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.chdir(message["directory"])
    os.environ.clear()
    os.environ.update(message["environ"])
    sys.argv = ["tracereel", *message["arguments"]]
    sys.exit(main())


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    _run(*_serve_forks(socket.socket(fileno=int(sys.argv[1]))))
