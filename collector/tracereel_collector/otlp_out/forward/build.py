"""Construction of the forwarder from the settings."""

from prometheus_client import CollectorRegistry

from tracereel_collector.config import Settings
from tracereel_collector.otlp_out.forward.forwarder import Forwarder, ForwardLimits
from tracereel_collector.otlp_out.forward.target import (
    Target,
    check_not_ourselves,
    parse_signals,
    parse_target,
)
from tracereel_collector.runtime.tenant_shares import SharePolicy
from tracereel_collector.telemetry import ForwardMetrics


def forward_target(settings: Settings) -> Target | None:
    """Return the endpoint to forward to; `None` if forwarding is off.

    Raises:
        StartupError: the endpoint cannot be used.
    """
    if not settings.forward_to:
        return None
    parse_signals(settings.forward_signals)
    target = parse_target(settings.forward_to, settings.forward_headers)
    check_not_ourselves(target, host=settings.host, port=settings.port)
    return target


def new_forwarder(
    settings: Settings, registry: CollectorRegistry, *, own_id: str, shares: SharePolicy
) -> Forwarder | None:
    """Return a forwarder to the configured endpoint; `None` if forwarding is off."""
    target = forward_target(settings)
    if target is None:
        return None
    return Forwarder(
        target,
        ForwardLimits(
            max_bytes=settings.forward_queue_bytes,
            request_seconds=settings.forward_seconds,
            age_seconds=settings.forward_age_seconds,
            signals=parse_signals(settings.forward_signals),
            own_spans=settings.forward_events == "on",
        ),
        own_id=own_id,
        metrics=ForwardMetrics.register(registry),
        shares=shares,
    )
