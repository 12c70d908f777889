"""Relay worker: one thread per member that sends the outbox until its owner has taken it.

What this member owns is in its outbox too while the list of members changes; it is sent to itself.
"""

import random
import threading
import time
from collections.abc import Callable

import msgspec
import structlog

from tracereel._export.http_client import HTTP_ERRORS
from tracereel_collector.errors import RetryableError, ServiceUnavailableError
from tracereel_collector.group.members import Group, Member
from tracereel_collector.group.peers import answer_of, connect, no_answer
from tracereel_collector.model import RelayReceipt
from tracereel_collector.queue import DurableQueue
from tracereel_collector.queue.relays import Outgoing, lane
from tracereel_collector.relay.wire import RECEIPTS, SOURCE_HEADER, encode
from tracereel_collector.runtime import failpoints
from tracereel_collector.telemetry import RelayMetrics, name_thread

log = structlog.get_logger(__name__)

PATH = "/v1/group/relay"
SEND_SECONDS = 30.0
FIRST_BACKOFF, LAST_BACKOFF = 0.1, 5.0
IDLE_SECONDS = 0.5
MAX_RELAYS = 256
MAX_BYTES = 4 * 1024 * 1024
"""Most relays and bytes of one request; a larger body goes alone."""


class RelayWorker:
    """Moves bodies from the outbox to their owners until stopped; the rest stays in the outbox."""

    def __init__(
        self,
        queue: DurableQueue,
        group: Group,
        *,
        metrics: RelayMetrics,
        on_relayed: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._metrics = metrics
        self._on_relayed = on_relayed
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._run, args=(group, peer), name=f"relay-{peer.name}", daemon=True
            )
            for peer in group.members
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, *, timeout: float) -> None:
        """Stop after the current request; safe without start and safe to call twice."""
        self._stop.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, group: Group, peer: Member) -> None:
        name_thread(f"relay-{peer.name}")
        connection = connect(group, peer, seconds=SEND_SECONDS)
        headers = {SOURCE_HEADER: self._queue.id, "content-type": "application/octet-stream"}

        def send(outgoing: Outgoing) -> list[RelayReceipt | None]:
            """Send relays once.

            Raises:
                ServiceUnavailableError: the peer has not taken them, or it is not known whether it has.
            """
            if not outgoing.relays:
                return []
            body = encode(outgoing.relays)
            try:
                response = connection.request("POST", PATH, body, headers)
            except HTTP_ERRORS as error:
                raise ServiceUnavailableError(no_answer(peer, error).failure) from error
            if failure := answer_of(peer, response).failure:
                raise ServiceUnavailableError(failure)
            try:
                receipts = RECEIPTS.decode(response.body)
            except msgspec.DecodeError as error:
                raise ServiceUnavailableError(f"not an answer to a relay: {error}") from error
            if len(receipts) != len(outgoing.relays):
                raise ServiceUnavailableError("not an answer to a relay: another number")
            return receipts

        failures = 0
        while not self._stop.is_set():
            if not self._queue.wait_for_bytes(lane(peer.name), 1, timeout=IDLE_SECONDS):
                continue
            try:
                outgoing = self._queue.outbox.next(
                    peer.name, max_relays=MAX_RELAYS, max_bytes=MAX_BYTES
                )
                failpoints.here("before_relay")
                receipts = send(outgoing)
                failpoints.here("after_relay")
                self._queue.outbox.done(outgoing, receipts)
                self._on_relayed()
                failures = 0
            except Exception as error:
                failures += 1
                self._metrics.retries.labels(peer.name).inc()
                if not isinstance(error, RetryableError):
                    log.exception("relay_failed", to=peer.name, reason=str(error))
                elif failures == 1:  # not every attempt
                    log.warning("relay_postponed", to=peer.name, reason=error.message)
                pause = min(LAST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures - 1, 10))
                self._stop.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311
        connection.close()
