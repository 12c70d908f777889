"""Delivery without a collector, for commands that have a data directory to themselves."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from tracereel_collector.config import Settings
from tracereel_collector.data_dir import QUEUE_FILE, queue_limits
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.errors import UnavailableError
from tracereel_collector.queue import DurableQueue
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.telemetry import DeliveryMetrics

STUCK_SECONDS = 120.0
LOOK_SECONDS = 0.05


def settle(settings: Settings, store: ClickHouseStore) -> None:
    """Finish what a collector that was killed had begun, under its token, while the store knows it."""
    with _delivery(settings, store) as (_, worker):
        worker.settle()


def drain(settings: Settings, store: ClickHouseStore, *, tell: Callable[[int], None]) -> None:
    """Deliver all that waits; `tell` how many bytes still do.

    Raises:
        UnavailableError: nothing more could be delivered for two minutes.
    """
    with _delivery(settings, store) as (queue, worker):
        worker.start()
        try:
            left, since = queue.pending_bytes, time.monotonic()
            while left:
                tell(left)
                time.sleep(LOOK_SECONDS)
                before, left = left, queue.pending_bytes
                since = since if left == before else time.monotonic()
                if time.monotonic() - since > STUCK_SECONDS:
                    raise UnavailableError(
                        f"{left} bytes wait in the queue, and the store has taken none for"
                        f" {STUCK_SECONDS:g} s"
                    )
        finally:
            worker.stop(timeout=settings.stop_seconds)


@contextmanager
def _delivery(
    settings: Settings, store: ClickHouseStore
) -> Iterator[tuple[DurableQueue, DeliveryWorker]]:
    queue = DurableQueue(settings.data_dir / QUEUE_FILE, queue_limits(settings))
    try:
        yield (
            queue,
            DeliveryWorker(
                queue,
                store,
                BatchLimits(
                    max_records=settings.batch_records,
                    max_bytes=settings.batch_bytes,
                    linger_seconds=0,
                ),
                metrics=DeliveryMetrics.register(CollectorRegistry()),
                prepare=lambda: None,
                on_delivered=lambda: None,
            ),
        )
    finally:
        queue.close()
