"""Native locks and threads, also in programs that are patched by gevent.

gevent replaces the standard library's primitives. The delivery thread would become a greenlet of
the thread that recorded first, and stop with it. gevent's locks may deadlock between greenlets of
several threads. So the SDK uses native ones: locks are held briefly by code that never switches
greenlets, and the delivery thread is native. Only callers that wait for delivery (a flush, the
exit) poll, so that other greenlets can run.
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
"""Seconds between two polls in a program with greenlets."""
_LONGEST: Final = 3600.0


def _original(module: ModuleType, name: str) -> Any:
    monkey = sys.modules.get("gevent.monkey")
    return getattr(module, name) if monkey is None else monkey.get_original(module.__name__, name)


Lock: Final[Callable[[], threading.Lock]] = _original(_thread, "allocate_lock")
RLock: Final[Callable[[], Any]] = _original(_thread, "RLock")


class Thread(Protocol):
    """Thread methods that the SDK uses."""

    def start(self) -> None: ...
    def is_alive(self) -> bool: ...
    def join(self, timeout: float) -> None: ...


class OwnThread(threading.Thread):
    """SDK thread; excluded from replays."""


def has_greenlets() -> bool:
    """Return whether gevent has patched the standard library's threads."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def condition() -> "threading.Condition | _Glances":
    """Create a condition that the program's threads wait for."""
    return _Glances() if has_greenlets() else threading.Condition()


def thread(target: Callable[[], None], *, name: str) -> Thread:
    """Create a daemon thread."""
    if has_greenlets():
        return _RealThread(target)
    return OwnThread(target=target, name=name, daemon=True)


def use_real_sockets(connection: "http.client.HTTPConnection", *, secure: bool) -> None:
    """Make a connection of the delivery thread use native sockets under gevent.

    A gevent socket creates an event loop in its thread, which does not survive a fork. TLS
    connections keep gevent's sockets because gevent provides no others.
    """
    if has_greenlets() and not secure:
        connection._create_connection = _connect  # type: ignore[attr-defined]  # noqa: SLF001


def _connect(
    address: tuple[str, int], timeout: float, _source_address: object = None
) -> "socket.socket":
    """Like `socket.create_connection`, with native sockets and resolver."""
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
        """Do nothing; waiting threads poll."""

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
