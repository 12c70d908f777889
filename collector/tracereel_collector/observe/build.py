"""Puts the observer together from the settings, or leaves it out."""

import hashlib
import os
import socket
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client import CollectorRegistry

from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.forward.target import Target, check_not_ourselves, parse_target
from tracereel_collector.observe.exporter import SelfExporter
from tracereel_collector.observe.observer import Observer
from tracereel_collector.telemetry import SelfMetrics, tap_log_lines

_SIGNALS = frozenset({"traces", "logs"})


@dataclass(frozen=True, slots=True)
class SelfObservation:
    """The two parts, to be started and stopped."""

    exporter: SelfExporter
    observer: Observer

    def start(self) -> None:
        """Begin, log lines included."""
        self.exporter.start()
        tap_log_lines(self.observer.said)

    def stop(self, *, timeout: float) -> None:
        """End; what waits is sent if that is possible at once."""
        tap_log_lines(None)
        self.exporter.stop(timeout=timeout)


def self_observation(settings: Settings, registry: CollectorRegistry) -> SelfObservation | None:
    """As the settings ask for it; None where they do not.

    Raises:
        StartupError: it cannot be sent there, or it is this collector.
    """
    target, signals = self_target(settings)
    if target is None:
        return None
    own_id = own_id_of(settings)
    exporter = SelfExporter(
        target,
        own_id=own_id,
        resource={
            "service.name": "tracereel-collector",
            "service.version": version("tracereel"),
            "service.instance.id": own_id,
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
        },
        max_items=settings.self_queue,
        metrics=SelfMetrics.register(registry),
    )
    observer = Observer(exporter, own_id=own_id, signals=signals, share=settings.self_share)
    return SelfObservation(exporter, observer)


def self_target(settings: Settings) -> tuple[Target | None, frozenset[str]]:
    """Where to, and what.

    Raises:
        StartupError: it cannot be sent there, or it is this collector.
    """
    signals = frozenset(filter(None, (each.strip() for each in settings.self_signals.split(","))))
    if unknown := sorted(signals - _SIGNALS):
        raise StartupError(
            f"TRACEREEL_SELF_SIGNALS: {unknown[0]!r} is not known; expected traces, logs"
        )
    if not settings.self_to:
        return None, signals
    target = parse_target(settings.self_to, settings.self_headers, setting="TRACEREEL_SELF")
    for port in (settings.port, settings.grpc_port):
        check_not_ourselves(target, host=settings.host, port=port, setting="TRACEREEL_SELF")
    return target, signals


def own_id_of(settings: Settings) -> str:
    """The same for all workers, and for this collector after a restart."""
    place = f"{socket.gethostname()}:{settings.data_dir}"
    return hashlib.sha256(place.encode()).hexdigest()[:16]
