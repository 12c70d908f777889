"""Locks, events and threads of the operating system, also in a program whose threads are greenlets.

gevent replaces those of the standard library. A delivering "thread" would then be a greenlet of
whichever thread recorded first, and stand still with it; and gevent's locks, waited for by greenlets
of several threads, may wait for ever. So ours are the real ones: they are held for moments, by code
that never gives way to another greenlet, and the delivering thread is a real one. Only who waits for
the delivery (a flush, the exit) does so by looking now and then, and lets the other greenlets run.
"""

import _thread
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import http.client
    import socket

_GLANCE: Final = 0.005
"""Seconds between two looks, for those who wait in a program with greenlets."""
_LONGEST: Final = 3600.0


def _original(module: ModuleType, name: str) -> Any:
    monkey = sys.modules.get("gevent.monkey")
    return getattr(module, name) if monkey is None else monkey.get_original(module.__name__, name)


Lock: Final[Callable[[], threading.Lock]] = _original(_thread, "allocate_lock")
RLock: Final[Callable[[], Any]] = _original(_thread, "RLock")


class Thread(Protocol):
    """What is used of a thread."""

    def start(self) -> None: ...
    def is_alive(self) -> bool: ...
    def join(self, timeout: float) -> None: ...


class OwnThread(threading.Thread):
    """A thread of ours: part of no re-execution, whoever starts it."""


def has_greenlets() -> bool:
    """Whether the standard library's threads are greenlets here."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def condition() -> "threading.Condition | _Glances":
    """A condition that the program's threads wait for."""
    return _Glances() if has_greenlets() else threading.Condition()


def thread(target: Callable[[], None], *, name: str) -> Thread:
    """A thread that does not keep the program from ending."""
    if has_greenlets():
        return _RealThread(target)
    return OwnThread(target=target, name=name, daemon=True)


def use_real_sockets(connection: "http.client.HTTPConnection", *, secure: bool) -> None:
    """Have a connection that is used by the delivering thread only wait there as threads do.

    A greenlet's socket brings an event loop into the thread that uses it, and such a thread does not
    survive in a forked child. With TLS it has to be a greenlet's: gevent leaves no other.
    """
    if has_greenlets() and not secure:
        connection._create_connection = _connect  # type: ignore[attr-defined]  # noqa: SLF001


def _connect(
    address: tuple[str, int], timeout: float, _source_address: object = None
) -> "socket.socket":
    """As `socket.create_connection`, with the sockets and the resolver of the operating system."""
    import socket

    trouble: OSError = OSError(f"no address for {address[0]}")
    host, port = address
    found = _original(socket, "getaddrinfo")(host, port, 0, socket.SOCK_STREAM)
    for family, kind, protocol, _, where in found:
        made: socket.socket = _original(socket, "socket")(family, kind, protocol)
        try:
            made.settimeout(timeout)
            made.connect(where)
        except OSError as error:
            made.close()
            trouble = error
        else:
            return made
    raise trouble


class _Glances:
    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *raised: object) -> None:
        self._lock.__exit__(*raised)

    def notify_all(self) -> None:
        """Nobody has to be told: they look."""

    def wait(self, timeout: float) -> None:
        self._lock.release()
        try:
            time.sleep(min(timeout, _GLANCE))
        finally:
            self._lock.acquire()


class _RealThread:
    def __init__(self, target: Callable[[], None]) -> None:
        self._target = target
        self._alive = False

    def start(self) -> None:
        self._alive = True
        try:
            _original(_thread, "start_new_thread")(self._run, ())
        except BaseException:
            self._alive = False
            raise

    def is_alive(self) -> bool:
        return self._alive

    def join(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self._alive and time.monotonic() < deadline:
            time.sleep(_GLANCE)

    def _run(self) -> None:
        try:
            self._target()
        finally:
            self._alive = False
