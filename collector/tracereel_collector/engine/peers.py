"""Open connections of the engine, with separate limits for authenticated ones."""

import socket
import threading
import time
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Peer:
    """Open connection."""

    connection: socket.socket
    known: bool = False
    """Whether a request on it has carried the secret."""
    busy: bool = False
    closing: bool = False
    """Whether it was closed for another one."""
    since: float = field(default_factory=time.monotonic)
    """Time when it was accepted, or when its last response was sent."""


class Peers:
    """Limits connections, separately for authenticated and other ones.

    All peers of a loopback listener have the same address, so only the secret distinguishes the
    collector from other local processes. An unauthenticated connection never displaces an
    authenticated one: the oldest unauthenticated one is closed instead.
    """

    def __init__(self, *, max_known: int, max_unknown: int) -> None:
        self._max_known = max_known
        self._max_unknown = max_unknown
        self._changed = threading.Condition()
        self._open: set[Peer] = set()
        self._stopping = False

    def add(self, connection: socket.socket) -> Peer:
        """Register a new connection, which is not authenticated yet."""
        peer = Peer(connection)
        with self._changed:
            unknown = [each for each in self._open if not each.known and not each.closing]
            if len(unknown) >= self._max_unknown:
                self._end(min(unknown, key=lambda each: each.since))
            self._open.add(peer)
        return peer

    def begin(self, peer: Peer, *, known: bool) -> bool:
        """Mark a request as started; return False if the connection must close."""
        with self._changed:
            if self._stopping or peer.closing:
                return False
            peer.known = peer.known or known
            peer.busy = True
            return True

    def has_room(self, peer: Peer) -> bool:
        """Return whether an authenticated peer may stay; close the longest idle one if needed."""
        with self._changed:
            others = [
                each for each in self._open if each.known and not each.closing and each is not peer
            ]
            if len(others) < self._max_known:
                return True
            idle = [each for each in others if not each.busy]
            if idle:
                self._end(min(idle, key=lambda each: each.since))
            return bool(idle)

    def end_request(self, peer: Peer) -> bool:
        """Mark a request as finished; return False if no further one is accepted."""
        with self._changed:
            peer.busy = False
            peer.since = time.monotonic()
            return not self._stopping

    def remove(self, peer: Peer) -> None:
        """Remove a closed connection."""
        with self._changed:
            self._open.discard(peer)
            self._changed.notify_all()

    def stop(self, *, seconds: float) -> bool:
        """Close idle connections and wait for the others; return False on timeout."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._stopping = True
            for peer in self._open:
                if not peer.busy:
                    shut(peer.connection)
            while self._open:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _end(self, peer: Peer) -> None:
        peer.closing = True
        shut(peer.connection)


def shut(connection: socket.socket) -> None:
    """Shut a connection down, which wakes up the thread that waits on it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed by the peer already
