"""Orphaned spools: events recorded under a key that the collector no longer accepts.

Spools are separate by key. After a key is revoked, a process with another key of the same tenant
delivers the events that ended processes left under the old key. The collector decides: it reports
the tenant of each key.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tracereel._export import destinations
from tracereel._export.destinations import Destination
from tracereel._export.sender import DeliveryUnavailableError, KeyState, Sender
from tracereel.config import Config

LOOK_SECONDS: Final = 60.0
"""Seconds between scans for orphaned spools."""
MAX_QUESTIONS: Final = 32
"""Keys queried per scan; each costs a request."""


class OrphanedSpools:
    """Finder of spools with refused keys at one endpoint; not thread-safe."""

    def __init__(self, config: Config, sender: Sender, *, interval: float = LOOK_SECONDS) -> None:
        self._config = config
        self._sender = sender
        self._interval = interval
        self._next = 0.0
        self._remembered: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether the next scan is due."""
        return time.monotonic() >= self._next

    def remember_tenant(self) -> None:
        """Record the tenant that the collector reported in its last response."""
        tenant = self._sender.tenant
        if tenant is not None and tenant != self._remembered:
            self._remembered = tenant
            destinations.remember(self._config, tenant)

    def find(self) -> list[Path]:
        """Return the directories to adopt; empty if the collector is unavailable."""
        self._next = time.monotonic() + self._interval
        try:
            return [path for path, state in self.states() if is_orphan(state)]
        except DeliveryUnavailableError:
            return []

    def states(self) -> Iterator[tuple[Path, KeyState | None]]:
        """Yield the other spool directories of this endpoint with the state of their keys.

        Raises:
            DeliveryUnavailableError: the collector is unavailable.
        """
        questions = 0
        for directory, record in destinations.others(self._config):
            if record is None or record.endpoint != self._config.endpoint:
                continue
            if questions == MAX_QUESTIONS:
                return
            questions += 1
            yield directory, self._key_state(record)

    def _key_state(self, record: Destination) -> KeyState | None:
        state = self._sender.key_state(record.key)
        # The collector no longer has the key: use the tenant from the destination record.
        if state is not None and state.state == "unknown" and record.tenant == state.tenant:
            return KeyState(state="forgotten", tenant=state.tenant)
        return state


def is_orphan(state: KeyState | None) -> bool:
    """Return whether a spool whose key is in this state may be adopted."""
    return state is not None and state.state in ("revoked", "expired", "forgotten")
