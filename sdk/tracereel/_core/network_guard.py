"""Watch on the network that Python's sockets use, for replays.

An audit hook sees new connections and datagrams; wrapped `send` methods see connections that were
open before. Sockets of other libraries (uvloop, gRPC) are not seen: commands run without network
interfaces where the system allows it.
"""

import functools
import socket
import sys
from collections.abc import Callable, Container
from contextlib import ExitStack
from typing import Any, Final

from tracereel._runtime import gevent_compat

Check = Callable[[str], None]
"""Raises if the calling code may not use a host."""

_EVENTS: Final = frozenset(
    f"socket.{name}" for name in ("connect", "getaddrinfo", "gethostbyname", "sendmsg", "sendto")
)
_SENDS: Final = ("send", "sendall", "write")
MAX_RESOLVED: Final = 10_000
_checks: Final[list[Check]] = []
_resolved: Final[dict[str, str]] = {}
"""Addresses and the names that were resolved to them."""
_undo: Final = ExitStack()
_lock: Final = gevent_compat.RLock()


def watch(check: Check) -> None:
    """Start to call a check for each use of a host."""
    _install_hook()
    with _lock:
        if not _checks:
            _wrap_sockets()
        _checks.append(check)


def unwatch(check: Check) -> None:
    """Stop calling a check."""
    with _lock:
        if check in _checks:
            _checks.remove(check)
            if not _checks:
                _undo.close()
                _resolved.clear()


def is_allowed(host: str, allowed: Container[str]) -> bool:
    """Return whether a host, or the name that was resolved to this address, is allowed."""
    return host in allowed or _resolved.get(host) in allowed


@functools.cache
def _install_hook() -> None:
    """Install the audit hook of the process; hooks cannot be removed."""

    def see(event: str, args: tuple[Any, ...]) -> None:
        if _checks and event in _EVENTS:
            if event.startswith("socket.g"):
                address = args[0]
            else:
                address = args[1]
                if address is None:  # a connected socket
                    _see_peer(args[0])
                    return
            if address is not None:
                _see(_host(address))

    sys.addaudithook(see)


def _host(address: Any) -> str:
    found = address[0] if isinstance(address, tuple) else address
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)


def _see(host: str) -> None:
    for check in tuple(_checks):
        check(host)


def _see_peer(sock: Any) -> None:
    try:
        peer = sock.getpeername()
    except OSError:
        return  # it is not connected: sending fails by itself
    if peer:  # both ends of a `socketpair` have no name
        _see(_host(peer))


def _wrap_sockets() -> None:
    """See data sent on open connections, and the addresses of names."""
    kinds: list[type] = [socket.socket]
    if (ssl := sys.modules.get("ssl")) is not None:
        kinds.append(ssl.SSLSocket)
    for kind in kinds:
        for name in _SENDS:
            if hasattr(kind, name):
                _replace(kind, name, _sending(getattr(kind, name)))
    _replace(socket, "getaddrinfo", _resolving(socket.getaddrinfo))


def _replace(owner: Any, name: str, value: Any) -> None:
    own = vars(owner).get(name)
    setattr(owner, name, value)

    def restore() -> None:
        if vars(owner).get(name) is not value:
            return  # wrapped by someone else since; ours does nothing without checks
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)

    _undo.callback(restore)


def _sending(real: Any) -> Any:
    @functools.wraps(real)
    def send(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _checks:
            _see_peer(self)
        return real(self, *args, **kwargs)

    return send


def _resolving(real: Any) -> Any:
    @functools.wraps(real)
    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        found = real(host, *args, **kwargs)
        if host is not None and len(_resolved) < MAX_RESOLVED:
            for *_, address in found:
                _resolved[str(address[0])] = _host(host)
        return found

    return getaddrinfo
