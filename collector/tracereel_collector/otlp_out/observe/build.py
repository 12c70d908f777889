"""Construction of self-observation from the settings."""

import hashlib
import os
import socket
from dataclasses import dataclass
from importlib.metadata import version

from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry

from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.otlp_out.forward.target import (
    Target,
    check_not_ourselves,
    parse_signals,
    parse_target,
)
from tracereel_collector.otlp_out.observe.exporter import SelfExporter
from tracereel_collector.otlp_out.observe.observer import Observer
from tracereel_collector.telemetry import SelfMetrics, tap_log_lines


@dataclass(frozen=True, slots=True)
class SelfObservation:
    """Exporter and observer, started and stopped together."""

    exporter: SelfExporter
    observer: Observer

    def start(self) -> None:
        """Start the exporter and capture log lines."""
        self.exporter.start()
        tap_log_lines(self.observer.said)

    def stop(self, *, timeout: float) -> None:
        """Stop; queued records are sent if the target accepts them immediately."""
        tap_log_lines(None)
        self.exporter.stop(timeout=timeout)


def self_observation(settings: Settings, registry: CollectorRegistry) -> SelfObservation | None:
    """Return self-observation, or None if it is off; raise StartupError for a bad target."""
    target, signals = self_target(settings)
    if target is None:
        return None
    own_id = own_id_of(settings)
    metrics = SelfMetrics.register(registry)
    try:
        exporter = SelfExporter(
            target, own_id=own_id, max_items=settings.self_queue, metrics=metrics
        )
    except OSError as error:
        raise StartupError(
            f"TRACEREEL_SELF_TO: certificates of the environment cannot be read: {error}",
            hint="see OTEL_EXPORTER_OTLP_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
        ) from error
    resource = Resource(
        {
            "service.name": "tracereel-collector",
            "service.version": version("tracereel"),
            "service.instance.id": own_id,
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
        }
    )
    observer = Observer(
        exporter, own_id=own_id, resource=resource, signals=signals, share=settings.self_share
    )
    return SelfObservation(exporter, observer)


def self_target(settings: Settings) -> tuple[Target | None, frozenset[str]]:
    """Return target (None if off) and signals; raise StartupError for a bad target."""
    signals = parse_signals(
        settings.self_signals, known=("traces", "logs"), setting="TRACEREEL_SELF"
    )
    if not settings.self_to:
        return None, signals
    target = parse_target(settings.self_to, settings.self_headers, setting="TRACEREEL_SELF")
    for port in (settings.port, settings.grpc_port):
        check_not_ourselves(target, host=settings.host, port=port, setting="TRACEREEL_SELF")
    return target, signals


def own_id_of(settings: Settings) -> str:
    """Return an id that is shared by all workers and stable across restarts."""
    place = f"{socket.gethostname()}:{settings.data_dir}"
    return hashlib.sha256(place.encode()).hexdigest()[:16]
