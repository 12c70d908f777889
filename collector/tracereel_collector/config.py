"""Settings of the collector: name, environment variable, default and description of each."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from tracereel_collector.errors import StartupError

MIB = 1024 * 1024
MAX_WORKERS = 64
MIN_ENGINE_BYTES = 128 * MIB
"""Least memory that the embedded store can work with."""


def _default_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "tracereel"


def _setting(default: Any, doc: str) -> Any:
    if callable(default):
        return field(default_factory=default, metadata={"doc": doc})
    return field(default=default, metadata={"doc": doc})


_EXPECTED: Final[tuple[tuple[str, Callable[[Any], bool], str], ...]] = (
    (
        "a number above 0",
        lambda value: value > 0,
        (
            "max_body_bytes max_body_objects max_event_bytes batch_bytes batch_records max_connections"
            " header_seconds body_seconds tail_beat_seconds forward_queue_bytes forward_seconds"
            " forward_age_seconds max_attributes max_attribute_bytes retention_seconds self_queue"
        ),
    ),
    (
        "0 or more",
        lambda value: value >= 0,
        (
            "rate_records rate_bytes min_free_bytes retention_days tail_readers"
            " tail_readers_per_tenant linger_seconds unread_seconds"
        ),
    ),
    (
        "'on' or 'off'",
        lambda value: value in ("on", "off"),
        "redact forward_events local_admin trust_forwarded_proto",
    ),
    ("'flag' or 'refuse'", lambda value: value in ("flag", "refuse"), "session_owners"),
    ("0 to 65535", lambda value: 0 <= value <= 65535, "port grpc_port"),
    (f"0 to {MAX_WORKERS}", lambda value: 0 <= value <= MAX_WORKERS, "workers"),
    (
        f"0, or at least {MIN_ENGINE_BYTES}",
        lambda value: value == 0 or value >= MIN_ENGINE_BYTES,
        "engine_memory_bytes",
    ),
    ("above 0, up to 1", lambda value: 0 < value <= 1, "tenant_share"),
    ("0 to 1", lambda value: 0 <= value <= 1, "self_share"),
    (
        "http://… or https://…",
        lambda value: not value or value.startswith(("http://", "https://")),
        "jaeger_url",
    ),
    (
        "'embedded', 'clickhouse://…' or 'clickhouses://…'",
        lambda value: value == "embedded" or value.startswith(("clickhouse://", "clickhouses://")),
        "store",
    ),
)
"""Expected value, its check, and the settings that it applies to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a collector; each field is also `TRACEREEL_<NAME>` in the environment."""

    host: str = _setting("127.0.0.1", "Address to listen on; beyond loopback, keys are required.")
    port: int = _setting(4318, "Port for everything HTTP: events, OTLP, queries, the page.")
    grpc_port: int = _setting(4317, "Port for OTLP over gRPC; 0 or `off` for none.")
    data_dir: Path = _setting(_default_data_dir, "Where queue and embedded store live.")
    store: str = _setting("embedded", "`embedded`, or `clickhouse[s]://user:pass@host:port/db`.")
    workers: int = _setting(0, "Processes that accept requests; 0 chooses by the cores.")
    api_keys: str = _setting(
        "",
        "`tenant:key` entries, separated by commas, each key of 20 characters or more;"
        " `tenant/read:key` may only read.",
    )
    local_admin: str = _setting(
        "off", "`on` lets every process of this machine administer while there are no keys."
    )
    public_url: str = _setting(
        "", "Where browsers reach the collector, such as `https://tracereel.example.com`; none."
    )
    trust_forwarded_proto: str = _setting(
        "off", "`on` believes `X-Forwarded-Proto`: set it only where a proxy always sends it."
    )

    peers: str = _setting(
        "",
        "All collectors that are one service, `name=http://host:port` entries separated by commas,"
        " this one included.",
    )
    name: str = _setting("", "Name of this collector in TRACEREEL_PEERS.")
    lost_peers: str = _setting(
        "",
        "Names of collectors whose disks are lost, separated by commas; the others take over what"
        " they owned without waiting for them.",
    )
    group_secret: str = _setting(
        "", "Secret that these collectors share, of 20 characters or more."
    )

    cors_origins: str = _setting("", "Web origins that may call, separated by commas; none.")
    rate_records: float = _setting(0.0, "Most records a key may send per second; 0 is no limit.")
    rate_bytes: float = _setting(0.0, "Most bytes a key may send per second; 0 is no limit.")
    tenant_share: float = _setting(
        0.5, "Largest share of limits that one tenant may use, if several have keys; up to 1."
    )
    session_owners: str = _setting(
        "flag", "`flag` marks events of other users in an owned session; `refuse` rejects them."
    )
    redact: str = _setting("off", "`on` hides secrets and personal data before they are kept.")

    forward_to: str = _setting(
        "", "OTLP/HTTP endpoint that everything received is forwarded to; none."
    )
    forward_headers: str = _setting("", "`name=value` pairs for it, separated by commas.")
    forward_signals: str = _setting("traces,logs,metrics", "Signals that are forwarded.")
    forward_events: str = _setting("on", "`on` also forwards the spans that our events carry.")
    forward_queue_bytes: int = _setting(64 * MIB, "Most bytes that wait to be forwarded.")
    forward_seconds: float = _setting(10.0, "Longest time for one request to it.")
    forward_age_seconds: float = _setting(
        300.0, "How long forwarding is retried before a body is dropped."
    )

    jaeger_url: str = _setting("", "Jaeger that runs on our page link to; none.")

    self_to: str = _setting(
        "", "OTLP/HTTP endpoint for the collector's own spans and log lines; none."
    )
    self_headers: str = _setting("", "`name=value` pairs for it, separated by commas.")
    self_signals: str = _setting("traces,logs", "Signals that are sent to it.")
    self_share: float = _setting(1.0, "Share of requests and batches that are traced.")
    self_queue: int = _setting(4096, "Most own spans and log lines that wait to be sent.")

    max_body_bytes: int = _setting(64 * MIB, "Largest request body, after decompression.")
    max_body_objects: int = _setting(
        1_000_000, "Most JSON values or protobuf messages in one body, counted before it is read."
    )
    max_event_bytes: int = _setting(4 * MIB, "Largest single event.")
    max_attributes: int = _setting(1000, "Most attributes of a span, log record or point (OTLP).")
    max_attribute_bytes: int = _setting(
        4 * MIB, "Longest text or value over OTLP; the rest is cut."
    )
    max_inflight_bytes: int = _setting(
        256 * MIB,
        "Request bodies held in memory at once; as much again for decoding large ones.",
    )
    max_pending_bytes: int = _setting(4096 * MIB, "Undelivered bytes in the queue before 429.")

    min_free_bytes: int = _setting(256 * MIB, "Free disk below which requests are refused (503).")
    max_connections: int = _setting(1000, "Open connections; idle ones give way to new ones.")
    header_seconds: float = _setting(10.0, "Longest time for the headers of a request.")
    body_seconds: float = _setting(30.0, "Time for a body, plus a second per 128 KiB of it.")

    commit_bytes: int = _setting(16 * MIB, "Most bytes that share one commit of the queue.")
    batch_bytes: int = _setting(
        48 * MIB, "Most bytes in one insert; half as many where they are OTLP, which unfolds."
    )
    batch_records: int = _setting(100_000, "Most records in one insert.")
    linger_seconds: float = _setting(1.5, "Longest time a batch waits to fill up.")
    unread_seconds: float = _setting(
        8.0, "The same while there are no reads; embedded store only, without a group and alerts."
    )
    retain_seconds: float = _setting(30.0, "How long delivered bodies stay in the queue.")

    tail_readers: int = _setting(100, "Live streams open at once in each worker.")
    tail_readers_per_tenant: int = _setting(20, "Live streams of one tenant in each worker.")
    tail_beat_seconds: float = _setting(10.0, "Longest silence on a live stream.")

    alert_webhook: str = _setting("", "Address that alerts are posted to; none.")
    alert_seconds: float = _setting(15.0, "Interval of the checks for alerts.")

    retention_days: int = _setting(
        0, "Days that rows of tenants without a rule are kept; 0 is for ever."
    )
    retention_seconds: float = _setting(60.0, "Interval of the checks for expired rows.")

    price_file: str = _setting("", "CSV of model prices that override the built-in ones.")
    query_seconds: float = _setting(30.0, "Longest time a query may take.")
    query_memory_bytes: int = _setting(2048 * MIB, "Most memory one query may use.")
    engine_memory_bytes: int = _setting(
        0,
        "Most memory of the embedded store; 0 is half of that of machine or container.",
    )
    stop_seconds: float = _setting(15.0, "Longest orderly stop before parts are killed.")

    @classmethod
    def load(cls, overrides: Mapping[str, Any], environ: Mapping[str, str]) -> "Settings":
        """Load settings from explicit values, then the environment, then the defaults.

        Raises:
            StartupError: lists every invalid value and its environment variable.
        """
        values: dict[str, Any] = {}
        problems: list[str] = []
        for setting in fields(cls):
            given = overrides.get(setting.name)
            variable = f"TRACEREEL_{setting.name.upper()}"
            raw = given if given is not None else environ.get(variable) or None
            if raw is None:
                continue
            if setting.name == "grpc_port" and raw == "off":
                raw = "0"
            kind: Any = setting.type
            try:
                value = kind(raw)
            except ValueError:
                problems.append(f"{variable}={raw!r}: expected {kind.__name__}")
                continue
            values[setting.name] = value.expanduser().resolve() if kind is Path else value
        if problems:
            raise StartupError("; ".join(problems))
        settings = cls(**values)
        settings.check()
        return settings

    @property
    def hold_seconds(self) -> float:
        """Time that a batch may wait while there are no reads; none where others read the store too."""
        has_other_readers = self.store != "embedded" or self.peers or self.alert_webhook
        return 0.0 if has_other_readers else self.unread_seconds

    def check(self) -> None:
        """Raise one `StartupError` that lists all invalid values."""
        problems = [
            f"{name}={value!r}: expected {expected}"
            for expected, is_valid, names in _EXPECTED
            for name in names.split()
            if not is_valid(value := getattr(self, name))
        ]
        if self.port and self.port == self.grpc_port:
            problems.append(
                f"port={self.port} and grpc_port={self.grpc_port}: expected two ports, or"
                " grpc_port=off"
            )
        if problems:
            raise StartupError("; ".join(problems))
