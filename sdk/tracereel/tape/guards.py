"""Network guard of one re-execution; code outside of it is not restricted."""

from collections.abc import Callable, Iterable

from tracereel._core import network_guard
from tracereel._core.replay_guard import blocked
from tracereel.tape.divergence import location


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
            network_guard.watch(self.check)

    def end(self) -> None:
        """Stop blocking."""
        network_guard.unwatch(self.check)

    def check(self, host: str) -> None:
        """Raise if a host is not allowed."""
        if not self._is_here() or network_guard.is_allowed(host, self._hosts):
            return
        self._noted(host, location())
        raise blocked(host)
