"""Settling of all traces of a store, as the collector's worker does it."""

from prometheus_client import CollectorRegistry

from tracereel_collector.deliver.settling import SettlingWorker
from tracereel_collector.telemetry import SettlingMetrics


def settling_worker(store):
    """Return a worker with metrics of its own, not started."""
    return SettlingWorker(store, metrics=SettlingMetrics.register(CollectorRegistry()))


def settle_all(store):
    """Settle every trace of a store; return how many were."""
    worker = settling_worker(store)
    settled = 0
    while done := worker.look():
        settled += done
    return settled
