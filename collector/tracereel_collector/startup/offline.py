"""Delivery without a collector, for commands that hold a data directory."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from tracereel_collector.config import Settings
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.errors import ServiceUnavailableError
from tracereel_collector.queue import DurableQueue
from tracereel_collector.startup.data_dir import QUEUE_FILE, clock_of, queue_limits
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.telemetry import DeliveryMetrics

STUCK_SECONDS = 120.0
LOOK_SECONDS = 0.05


def settle(settings: Settings, store: ClickHouseStore) -> None:
    """Finish the batches of a killed collector under their tokens.

    The store deduplicates by these tokens only for a limited time.
    """
    with _delivery(settings, store) as (_, worker):
        worker.settle()


def drain(settings: Settings, store: ClickHouseStore, *, report: Callable[[int], None]) -> None:
    """Deliver all queued bodies; `report` receives the bytes left.

    Raises:
        ServiceUnavailableError: no progress for two minutes.
    """
    with _delivery(settings, store) as (queue, worker):
        worker.start()
        try:
            left, since = queue.pending_bytes, time.monotonic()
            while left:
                report(left)
                time.sleep(LOOK_SECONDS)
                before, left = left, queue.pending_bytes
                since = since if left == before else time.monotonic()
                if time.monotonic() - since > STUCK_SECONDS:
                    raise ServiceUnavailableError(
                        f"{left} bytes wait in the queue, and the store has taken none for"
                        f" {STUCK_SECONDS:g} s"
                    )
        finally:
            worker.stop(timeout=settings.stop_seconds)


@contextmanager
def _delivery(
    settings: Settings, store: ClickHouseStore
) -> Iterator[tuple[DurableQueue, DeliveryWorker]]:
    clock = clock_of(settings)
    queue = DurableQueue(
        settings.data_dir / QUEUE_FILE,
        queue_limits(settings),
        now_unix_nano=clock.unix_nano,
        steady_nano=clock.steady_nano,
    )
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
