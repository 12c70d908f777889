"""Metrics of the access gate."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter


@dataclass(frozen=True, slots=True)
class AccessMetrics:
    """Refusals by reason, connections ended early, and lost audit lines."""

    refused: Counter
    connections: Counter
    audit_lost: Counter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "AccessMetrics":
        """Create the metrics in a registry."""
        return cls(
            refused=Counter(
                "tracereel_access_refused_total",
                "Requests refused for who sent them, by reason.",
                ["reason"],
                registry=registry,
            ),
            connections=Counter(
                "tracereel_connections_ended_total",
                "Connections ended by the collector, by reason.",
                ["reason"],
                registry=registry,
            ),
            audit_lost=Counter(
                "tracereel_audit_lines_lost_total",
                "Lines of the audit log that could not be written, by reason.",
                ["reason"],
                registry=registry,
            ),
        )
