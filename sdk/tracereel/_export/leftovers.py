"""Synchronous delivery of events that ended processes left in the spool."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from opentelemetry import context as otel_context

from tracereel._export.backoff import backoff
from tracereel._export.heartbeat import Heartbeats
from tracereel._export.orphaned_spools import OrphanedSpools
from tracereel._export.sender import DeliveryUnavailableError, Sender
from tracereel._export.shipper import FlushResult, settle
from tracereel._export.spool_reader import SpoolReader, dead_emitters
from tracereel._runtime import guard
from tracereel._runtime.compat import uninstrumented_context
from tracereel.config import Config


def ship_leftovers(
    config: Config,
    *,
    timeout: float = 30.0,
    progress: Callable[[FlushResult], None] | None = None,
    on_trouble: Callable[[DeliveryUnavailableError], None] = lambda _trouble: None,
    sender: Sender | None = None,
    patient: bool = True,
    source: Path | None = None,
) -> FlushResult:
    """Deliver the events of ended processes to this destination; skip spools in use.

    Spools of refused keys are delivered too if the key belonged to the same tenant.

    Args:
        progress: called after each response with the totals so far.
        on_trouble: called when the collector does not take events; a refused key ends delivery.
        patient: retry if the connection is refused. If false, orphaned spools are skipped too.
        source: deliver this spool directory instead, whatever key it was recorded with.
    """
    deadline = time.monotonic() + timeout
    sender = sender or Sender(config, timeout=min(timeout, 10.0))
    heartbeats = Heartbeats(config, sender)
    directory = source or config.destination_dir
    waiting = _count_left(directory)
    delivered = dropped = failures = 0

    def outboxes() -> Iterator[SpoolReader]:
        nonlocal waiting
        # One emitter at a time: there may be more emitters than file descriptors.
        yield from dead_emitters(directory)
        if source is None and patient and time.monotonic() < deadline:
            for orphan in OrphanedSpools(config, sender).find():
                waiting += _count_left(orphan)
                yield from dead_emitters(orphan)

    try:
        for outbox in outboxes():
            while time.monotonic() < deadline:
                try:
                    batch = outbox.read()
                    if batch is None:
                        heartbeats.recovered(outbox.remains())
                        outbox.finish()
                        break
                    for settled in settle(sender, batch.lines):
                        failures = 0
                        for line, reason in settled.refused:
                            outbox.set_aside(line, reason)
                        outbox.settle(settled.lines)
                        dropped += len(settled.refused)
                        delivered += len(settled.lines) - len(settled.refused)
                        waiting = max(0, waiting - len(settled.lines))
                        if progress is not None:
                            progress(FlushResult(delivered, waiting, dropped))
                except OSError as error:
                    guard.log_message(logging.WARNING, "tracereel: cannot read a spool: %s", error)
                    break
                except DeliveryUnavailableError as trouble:
                    on_trouble(trouble)
                    if trouble.refused_key or (trouble.no_connection and not patient):
                        deadline = 0.0
                        break
                    failures += 1
                    pause = backoff(failures, trouble.retry_after)
                    time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
            outbox.release()
    finally:
        sender.close()
    return FlushResult(delivered, waiting, dropped)


def ship_at_exit(config: Config, timeout: float) -> None:
    """Deliver leftovers without a thread: some Python versions start no threads at exit."""
    if timeout > 0.0 and config.destination_dir.is_dir():
        quiet = otel_context.attach(uninstrumented_context())
        try:
            ship_leftovers(config, timeout=timeout, patient=False)
        finally:
            otel_context.detach(quiet)


def _count_left(directory: Path) -> int:
    total = 0
    for outbox in dead_emitters(directory):
        total += outbox.count()
        outbox.release()
    return total
