"""SDK settings, read from arguments and environment into a frozen `Config`."""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tracereel._redact import rules as _redaction
from tracereel._redact.rules import Redaction
from tracereel._runtime.clock import MAX_DRIFT_SECONDS
from tracereel.errors import ConfigurationError

MIB: Final = 1024 * 1024
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")
COMPRESSIONS: Final = ("auto", "gzip", "none")
RECORDS: Final = ("off", "errors", "sampled", "all")

NO_SPOOL: Final = Path(os.devnull, "no-home-directory")
"""Directory that cannot be created: events stay in memory and a warning names it."""
DEFAULT_ENDPOINT: Final = "http://127.0.0.1:4318"


def _endpoint(value: object) -> str:
    try:
        url = urlsplit(str(value).strip())
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is no number, a broken IPv6 address
        usable = False
    if not usable or url.query or url.fragment or url.username:
        raise ValueError("a URL such as http://127.0.0.1:4318 or https://host/prefix")
    return url.geturl().rstrip("/")


def _text(value: object) -> str | None:
    return str(value).strip() or None


def _key(value: object) -> str | None:
    key = str(value).strip()
    if not key.isascii() or not (key.isprintable() or not key):
        raise ValueError("printable ASCII characters")
    return key or None


def _flag(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"one of {', '.join(_TRUE + _FALSE)}")
    return word in _TRUE


def _seconds(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1.0
    if not 0.0 <= number <= 3600.0:
        raise ValueError("seconds, from 0 to 3600")
    return number


def _bytes(value: object) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        number = -1
    if number < 64 * 1024:
        raise ValueError("a number of bytes, at least 65536")
    return int(number)


def _rate(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise ValueError("a number from 0 to 1")
    return number


def _cost(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1.0
    if not number >= 0.0:
        raise ValueError("an amount in US dollars, 0 or more")
    return number


def _directory(value: object) -> Path:
    try:
        path = Path(str(value)).expanduser()
    except RuntimeError as error:  # `~` without a home directory
        raise ValueError("an absolute path; this user has no home directory") from error
    if not path.is_absolute():
        raise ValueError("an absolute path")
    return path


def _compression(value: object) -> str:
    word = str(value).strip().lower()
    if word not in COMPRESSIONS:
        raise ValueError(f"one of {', '.join(COMPRESSIONS)}")
    return word


def _record(value: object) -> str:
    word = str(value).strip().lower()
    if word not in RECORDS:
        raise ValueError(f"one of {', '.join(RECORDS)}")
    return word


def _default_spool() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or ""
    # The XDG specification says to ignore relative paths.
    if state.startswith("/"):
        return Path(state) / "tracereel" / "spool"
    try:
        return Path.home() / ".local" / "state" / "tracereel" / "spool"
    except RuntimeError:  # neither HOME nor an entry in the password file, as in some containers
        return NO_SPOOL


@dataclass(frozen=True, slots=True)
class Setting:
    """Metadata of a setting, beside its name, type and default."""

    env: str
    parse: Callable[[object], Any]
    doc: str
    secret: bool = False


def _row(
    default: object, env: str, parse: Callable[[object], Any], doc: str, *, secret: bool = False
) -> Any:
    about = {"setting": Setting(env, parse, doc, secret)}
    if callable(default):
        return field(default_factory=default, metadata=about)
    return field(default=default, metadata=about, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All SDK settings; each row has a default, a variable, a parser and a description."""

    endpoint: str = _row(
        DEFAULT_ENDPOINT, "TRACEREEL_ENDPOINT", _endpoint, "Base URL of the collector."
    )
    api_key: str | None = _row(
        None, "TRACEREEL_API_KEY", _key, "Key sent as `x-api-key`.", secret=True
    )
    service: str | None = _row(
        None,
        "TRACEREEL_SERVICE",
        _text,
        "Name of this program; else `OTEL_SERVICE_NAME`, else `service.name` of"
        " `OTEL_RESOURCE_ATTRIBUTES`.",
    )
    spool_dir: Path = _row(
        _default_spool,
        "TRACEREEL_SPOOL_DIR",
        _directory,
        "Where events wait until they are delivered.",
    )
    enabled: bool = _row(
        True,
        "TRACEREEL_ENABLED",
        _flag,
        "Off: decorated code runs as if undecorated. `OTEL_SDK_DISABLED=true` turns it off too.",
    )
    exit_timeout: float = _row(
        1.5,
        "TRACEREEL_EXIT_TIMEOUT",
        _seconds,
        "Longest time the exit of the program waits for delivery.",
    )
    max_spool_bytes: int = _row(
        256 * MIB,
        "TRACEREEL_MAX_SPOOL_BYTES",
        _bytes,
        "Above this many bytes waiting, new events are dropped and counted.",
    )
    capture_content: bool = _row(
        True,
        "TRACEREEL_CAPTURE_CONTENT",
        _flag,
        "Off: no summaries, prompts, decision data or inputs of failed calls are recorded.",
    )
    compression: str = _row(
        "auto",
        "TRACEREEL_COMPRESSION",
        _compression,
        "`gzip`, `none`, or `auto`: gzip unless the collector is on this machine.",
    )
    redaction: Redaction = _row(
        Redaction,
        "TRACEREEL_REDACTION",
        _redaction.parse,
        "Off: secrets and personal data are recorded as they are. In code also a `Redaction`.",
    )
    sample_rate: float = _row(
        1.0,
        "TRACEREEL_SAMPLE_RATE",
        _rate,
        "Share of the traces that are recorded, 0 to 1; those with failures always are.",
    )
    sample_keep_cost_usd: float = _row(
        1.0,
        "TRACEREEL_SAMPLE_KEEP_COST_USD",
        _cost,
        "A trace that costs as much as this is recorded whatever the sampling says.",
    )
    other_spans: bool = _row(
        True,
        "TRACEREEL_OTHER_SPANS",
        _flag,
        "Spans of other instrumentations go to the collector too, where the tracer provider lets"
        " us see them.",
    )
    set_tracer_provider: bool = _row(
        False,
        "TRACEREEL_SET_TRACER_PROVIDER",
        _flag,
        "On: a program without a global tracer provider is given one.",
    )
    heartbeat_seconds: float = _row(
        15.0,
        "TRACEREEL_HEARTBEAT_SECONDS",
        _seconds,
        "How often the collector is told how many events there are; 0 is never.",
    )

    max_clock_drift: float = _row(
        MAX_DRIFT_SECONDS,
        "TRACEREEL_MAX_CLOCK_DRIFT",
        _seconds,
        "A clock that comes with a message and is this many seconds ahead of ours is not followed.",
    )

    record: str = _row(
        "off",
        "TRACEREEL_RECORD",
        _record,
        "Which runs are recorded for re-execution: `off`, `errors`, `sampled` or `all`.",
    )
    record_rate: float = _row(
        0.1, "TRACEREEL_RECORD_RATE", _rate, "With `record=sampled`, the share of them, 0 to 1."
    )
    record_exact: bool = _row(
        False,
        "TRACEREEL_RECORD_EXACT",
        _flag,
        "On: results of recorded calls reach the program one at a time. It changes the schedule.",
    )

    @property
    def destination_id(self) -> str:
        """Short hash of endpoint and key; events spooled for one are never sent to another."""
        identity = f"{self.endpoint}\0{self.api_key or ''}"
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    @property
    def destination_dir(self) -> Path:
        """Directory of the events that wait for this destination."""
        return self.spool_dir / self.destination_id


def settings() -> dict[str, Setting]:
    """Return all settings by name."""
    return {item.name: item.metadata["setting"] for item in fields(Config)}


def load(environ: Mapping[str, str] | None = None, /, **given: object) -> Config:
    """Build the configuration from arguments (not `None`), else the environment, else the defaults.

    Raises:
        ConfigurationError: one or more values are invalid; the message names each of them.
    """
    env = os.environ if environ is None else environ
    table = settings()
    if unknown := sorted(set(given) - set(table)):
        raise ConfigurationError(f"unknown setting {unknown}; known: {', '.join(table)}")
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, row in table.items():
        source, raw = name, given.get(name)
        if raw is None:
            source, raw = row.env, _from_environment(name, row, env)
        if raw is None:
            continue
        try:
            values[name] = row.parse(raw)
        except ValueError as error:
            shown = "a value" if row.secret else repr(raw)
            problems.append(f"{source} is {shown}; expected {error}")
    if problems:
        raise ConfigurationError("; ".join(problems))
    return Config(**values)


def _from_environment(name: str, row: Setting, env: Mapping[str, str]) -> str | None:
    """Return a setting's variable or its OpenTelemetry equivalent; empty counts as unset."""
    if found := env.get(row.env, "").strip():
        return found
    if name == "service":
        return env.get("OTEL_SERVICE_NAME", "").strip() or _resource_service(env)
    if name == "enabled" and env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "false"
    return None


def _resource_service(env: Mapping[str, str]) -> str | None:
    for pair in env.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, _, value = pair.partition("=")
        if key.strip() == "service.name":
            return unquote(value.strip()) or None
    return None
