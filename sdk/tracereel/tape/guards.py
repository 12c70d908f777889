"""Network guard for re-executions.

An audit hook detects every socket that Python opens. Libraries with their own sockets (uvloop,
gRPC) and child processes are not detected. Code outside of the re-execution is not restricted.
"""

import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

from tracereel.tape.divergence import location

_EVENTS: Final = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
    | {"socket.sendmsg"}
)


class NetworkBlockedError(BaseException):
    """The program tried to use the network during a re-execution."""


class _Watch:
    """Single audit hook of the process; hooks cannot be removed, only switched off."""

    def __init__(self) -> None:
        self.blocks: list[Network] = []
        self._installed = False

    def install(self) -> None:
        """Install the hook."""
        if not self._installed:
            self._installed = True
            sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.blocks and event in _EVENTS:
            for block in list(self.blocks):
                block.check(event, args)


_watch: Final = _Watch()


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

    def __enter__(self) -> Self:
        if not self._all:
            _watch.install()
            _watch.blocks.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """Stop blocking."""
        if self in _watch.blocks:
            _watch.blocks.remove(self)

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
