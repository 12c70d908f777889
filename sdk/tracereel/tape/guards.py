"""Network guard for re-executions.

An audit hook detects every socket that Python opens. Libraries with their own sockets (uvloop,
gRPC) and child processes are not detected. Code outside of the re-execution is not restricted.
"""

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from tracereel.tape.divergence import location

_EVENTS: Final = frozenset(
    f"socket.{name}" for name in ("connect", "getaddrinfo", "gethostbyname", "sendmsg", "sendto")
)


class NetworkBlockedError(BaseException):
    """The program tried to use the network during a re-execution."""


_active: Final[list["Network"]] = []


@functools.cache
def _install_hook() -> None:
    """Install the audit hook of the process; hooks cannot be removed."""

    def check(event: str, args: tuple[Any, ...]) -> None:
        if _active and event in _EVENTS:
            for network in _active:
                network.check(event, args)

    sys.addaudithook(check)


class Network:
    """Blocks the network for a re-execution, except for allowed hosts."""

    def __init__(
        self,
        allowed: Iterable[str] | bool,
        *,
        is_here: Callable[[], bool],
        noted: Callable[[str, str | None], None],
    ) -> None:
        self._is_here = is_here
        self._all = allowed is True
        self._hosts = frozenset() if isinstance(allowed, bool) else frozenset(allowed)
        self._noted = noted

    def begin(self) -> None:
        """Start blocking."""
        if not self._all:
            _install_hook()
            _active.append(self)

    def end(self) -> None:
        """Stop blocking."""
        if self in _active:
            _active.remove(self)

    def check(self, event: str, args: tuple[Any, ...]) -> None:
        """Raise if a socket event is not allowed."""
        if not self._is_here():
            return
        address = args[1] if event.startswith("socket.s") or event == "socket.connect" else args[0]
        host = str(address[0]) if isinstance(address, tuple) else str(address)
        if host in self._hosts or address is None:
            return
        self._noted(host, location())
        raise NetworkBlockedError(
            f"a replay does not use the network; it was asked for {host!r}."
            f" Put the call behind a traced tool, or allow it: allow_network=[{host!r}]"
        )
