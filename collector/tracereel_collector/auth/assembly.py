"""Builds the access control of a collector from its settings."""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.auth.gate import AccessGate, GateSettings
from tracereel_collector.auth.keyring import parse_static
from tracereel_collector.auth.keystore import FILE as KEYS_FILE
from tracereel_collector.auth.keystore import KeyStore
from tracereel_collector.auth.limits import Rates
from tracereel_collector.auth.metrics import AccessMetrics
from tracereel_collector.auth.origins import parse_origins
from tracereel_collector.auth.public_url import PublicUrl, parse_public_url
from tracereel_collector.auth.sessions import FILE as SESSIONS_FILE
from tracereel_collector.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControl:
    """Access gate and its components."""

    gate: AccessGate
    keys: KeyStore
    audit: AuditLog
    metrics: AccessMetrics
    public: PublicUrl

    @classmethod
    def build(
        cls, settings: Settings, registry: CollectorRegistry, *, now_unix: Callable[[], float]
    ) -> "AccessControl":
        """Build the access control; `gate.start` reads the keys.

        Keys and sessions expire by `now_unix`.

        Raises:
            StartupError: a setting is invalid.
        """
        metrics = AccessMetrics.register(registry)
        keys = KeyStore(settings.data_dir / KEYS_FILE, now_unix=now_unix)
        audit = AuditLog(
            settings.data_dir / "audit",
            on_error=lambda lines: metrics.audit_lost.labels("unwritable").inc(lines),
        )
        public = parse_public_url(
            settings.public_url, trust_forwarded_proto=settings.trust_forwarded_proto == "on"
        )
        gate_settings = GateSettings(
            host=settings.host,
            static=parse_static(settings.api_keys),
            local_admin=settings.local_admin == "on",
            origins=parse_origins(settings.cors_origins),
            public=public,
            rates=Rates(records=settings.rate_records, bytes=settings.rate_bytes),
            rates_file=settings.data_dir / "limits.sqlite",
            sessions_file=settings.data_dir / SESSIONS_FILE,
        )
        gate = AccessGate(gate_settings, keys=keys, audit=audit, metrics=metrics, now_unix=now_unix)
        return cls(gate=gate, keys=keys, audit=audit, metrics=metrics, public=public)
