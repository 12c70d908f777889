"""Settling of all traces of a store, as the collector's worker does it."""

from prometheus_client import CollectorRegistry

from tracereel_collector.deliver.settling import SettlingWorker
from tracereel_collector.telemetry import SettlingMetrics


def settle_all(store):
    """Settle every trace of a store; return how many were."""
    worker = SettlingWorker(store, metrics=SettlingMetrics.register(CollectorRegistry()))
    settled = 0
    while done := worker.look():
        settled += done
    return settled
