"""SDK settings, read from arguments and environment into a frozen `Config`."""

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
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
COMPRESSIONS: Final = ("auto", "gzip", "none", "zstd")
EVENT_LOGS: Final = ("auto", "off", "lifecycle", "content")
RECORDS: Final = ("off", "errors", "sampled", "all")

NO_SPOOL: Final = Path(os.devnull, "no-home-directory")
"""Directory that cannot be created: events stay in memory and a warning names it."""
DEFAULT_ENDPOINT: Final = "http://127.0.0.1:4318"
RESULT_FIELDS: Final = ("confidence", "decision_type", "reasoning", "outcome")
"""Fields of closing events that are read from results."""

Parse = Callable[[object], Any]
"""Returns a valid value, or raises ValueError with the expected form."""


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


def _number(
    kind: Callable[[Any], float], expected: str, least: float, most: float = math.inf
) -> Parse:
    def parse(value: object) -> float:
        try:
            number = kind(value)
        except (TypeError, ValueError):
            number = -1
        if not least <= number <= most:
            raise ValueError(expected)
        return number

    return parse


def _one_of(words: tuple[str, ...]) -> Parse:
    def parse(value: object) -> str:
        word = str(value).strip().lower()
        if word not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return word

    return parse


_compression_word: Final = _one_of(COMPRESSIONS)


def _compression(value: object) -> object:
    word = _compression_word(value)
    if word == "zstd" and find_spec("zstandard") is None:
        raise ValueError("the package zstandard (pip install 'tracereel[zstd]')")
    return word


_seconds: Final = _number(float, "seconds, from 0 to 3600", 0.0, 3600.0)
_rate: Final = _number(float, "a number from 0 to 1", 0.0, 1.0)
_cost: Final = _number(float, "an amount in US dollars, 0 or more", 0.0)
_bytes: Final = _number(int, "a number of bytes, at least 65536", 64 * 1024)
_message: Final = _number(int, "a number of bytes, at least 4096", 4096)
_content: Final = _number(int, "a number of bytes, from 65536 to 12582912", 64 * 1024, 12 * MIB)
"""Lines of the spool are limited too."""


def _result_fields(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the names by field, as given in a mapping or a text; other fields keep theirs."""
    expected = f"names such as confidence=score|certainty; fields: {', '.join(RESULT_FIELDS)}"
    pairs: list[tuple[str, object]]
    if isinstance(value, Mapping):
        pairs = [(str(target), names) for target, names in value.items()]
    else:
        parts = [part.partition("=") for part in str(value).split(",") if part.strip()]
        if not all(equals for _, equals, _ in parts):
            raise ValueError(expected)
        pairs = [(target.strip(), names) for target, _, names in parts]
    found: dict[str, tuple[str, ...]] = {target: (target,) for target in RESULT_FIELDS}
    for target, names in pairs:
        listed = names.split("|") if isinstance(names, str) else names
        if target not in found or not isinstance(listed, (list, tuple)):
            raise ValueError(expected)
        found[target] = tuple(name for each in listed if (name := str(each).strip()))
    return tuple(found.items())


def _directory(value: object) -> Path:
    try:
        path = Path(str(value)).expanduser()
    except RuntimeError as error:  # `~` without a home directory
        raise ValueError("an absolute path; this user has no home directory") from error
    if not path.is_absolute():
        raise ValueError("an absolute path")
    return path


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
    parse: Parse
    doc: str
    secret: bool


def _row(default: object, parse: Parse, doc: str, *, secret: bool = False) -> Any:
    about = {"parse": parse, "doc": doc, "secret": secret}
    if callable(default):
        return field(default_factory=default, metadata=about)
    return field(default=default, metadata=about, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All SDK settings; each row has a default, a parser and a description."""

    endpoint: str = _row(DEFAULT_ENDPOINT, _endpoint, "Base URL of the collector.")
    api_key: str | None = _row(None, _key, "Key sent as `x-api-key`.", secret=True)
    service: str | None = _row(
        None,
        _text,
        "Name of this program; else `OTEL_SERVICE_NAME`, else `service.name` of"
        " `OTEL_RESOURCE_ATTRIBUTES`.",
    )
    spool_dir: Path = _row(
        _default_spool, _directory, "Where events wait until they are delivered."
    )
    enabled: bool = _row(
        True,
        _flag,
        "Off: decorated code runs as if undecorated. `OTEL_SDK_DISABLED=true` turns it off too.",
    )
    exit_timeout: float = _row(
        1.5, _seconds, "Longest time the exit of the program waits for delivery."
    )
    max_spool_bytes: int = _row(
        256 * MIB, _bytes, "Above this many bytes waiting, new events are dropped and counted."
    )
    capture_content: bool = _row(
        True,
        _flag,
        "Off: no summaries, prompts, decision data or inputs of failed calls are recorded.",
    )
    max_message_bytes: int = _row(
        256 * 1024,
        _message,
        "Longest message to or from a model, and longest single text; of a longer one the middle is"
        " removed.",
    )
    max_content_bytes: int = _row(
        3 * MIB,
        _content,
        "Most inputs and outputs of one event; beyond that the middle is removed, of messages the"
        " first and the last stay. The collector accepts events of `TRACEREEL_MAX_EVENT_BYTES`.",
    )
    event_logs: str = _row(
        "auto",
        _one_of(EVENT_LOGS),
        "Log lines of events: `off`; `lifecycle`, without prompts; `content`, with them; or `auto`:"
        " `lifecycle` to the program's own logging, and if it has none, `content` as JSON to"
        " standard error after a call of `configure`, else failures only.",
    )
    store_thinking: bool = _row(
        False, _flag, "On: the reasoning of models is recorded. By default only its size is."
    )
    compression: str = _row(
        "auto",
        _compression,
        "`zstd`, `gzip`, `none`, or `auto`: `none` to a collector on this machine, else zstd if the"
        " package zstandard is installed (`tracereel[zstd]`), else gzip.",
    )
    result_fields: tuple[tuple[str, tuple[str, ...]], ...] = _row(
        lambda: _result_fields(""),
        _result_fields,
        "Fields or keys of results that hold the confidence, decision type, reasoning and outcome,"
        " as `confidence=score|certainty,reasoning=why`. In code also a mapping.",
    )
    redaction: Redaction = _row(
        Redaction,
        _redaction.parse,
        "Off: secrets and personal data are recorded as they are. In code also a `Redaction`.",
    )
    sample_rate: float = _row(
        1.0,
        _rate,
        "Share of the traces that are recorded, 0 to 1; those with failures always are.",
    )
    sample_keep_cost_usd: float = _row(
        1.0, _cost, "A trace that costs as much as this is recorded without regard to sampling."
    )
    other_spans: bool = _row(
        True,
        _flag,
        "Spans of other instrumentations go to the collector too, where the tracer provider lets"
        " us see them.",
    )
    set_tracer_provider: bool | None = _row(
        None,
        _flag,
        "Whether a program without a global tracer provider is given one; by default one that calls"
        " `configure` without a provider.",
    )
    heartbeat_seconds: float = _row(
        15.0,
        _seconds,
        "Seconds between heartbeats, which report the number of events; 0 turns them off.",
    )

    max_clock_drift: float = _row(
        MAX_DRIFT_SECONDS,
        _seconds,
        "A clock that comes with a message and is this many seconds ahead of ours is not followed.",
    )

    record: str = _row(
        "off",
        _one_of(RECORDS),
        "Which runs are recorded for re-execution: `off`, `errors`, `sampled` or `all`.",
    )
    record_rate: float = _row(0.1, _rate, "With `record=sampled`, the share of them, 0 to 1.")
    record_exact: bool = _row(
        False,
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
    return {
        item.name: Setting(env=f"TRACEREEL_{item.name.upper()}", **item.metadata)
        for item in fields(Config)
    }


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
