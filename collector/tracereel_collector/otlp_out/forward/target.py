"""Forwarding target: URL, headers and the check that it is not this collector."""

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.model import Kind

SIGNALS = {"traces": Kind.SPANS, "logs": Kind.LOGS, "metrics": Kind.METRICS}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = frozenset({"content-type", "content-length", "host", "connection", "transfer-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """OTLP/HTTP endpoint; `/v1/traces`, `/v1/metrics` or `/v1/logs` is appended to its path."""

    host: str
    port: int
    secure: bool
    path: str
    headers: dict[str, str] = field(repr=False)
    """Hidden in `repr`, because headers may contain a key."""

    @property
    def url(self) -> str:
        """URL without the path of a signal."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "https" if self.secure else "http"
        return f"{scheme}://{host}:{self.port}{self.path}"


def forward_target(settings: Settings) -> Target | None:
    """Return the endpoint to forward to, or None; raise StartupError if it cannot be used."""
    if not settings.forward_to:
        return None
    parse_signals(settings.forward_signals)
    target = parse_target(settings.forward_to, settings.forward_headers)
    check_not_ourselves(target, host=settings.host, port=settings.port)
    return target


def parse_target(url: str, headers: str, *, setting: str = "TRACEREEL_FORWARD") -> Target:
    """Parse the `_TO` and `_HEADERS` settings that start with `setting`; may raise StartupError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise StartupError(f"{setting}_TO cannot be read: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise StartupError(
            f"{setting}_TO={url[:100]!r}: expected http://host:port or https://host:port",
            hint="OTLP over HTTP; a Jaeger listens on 4318",
        )
    secure = parts.scheme == "https"
    return Target(
        host=parts.hostname,
        port=port or (443 if secure else 4318),
        secure=secure,
        path=parts.path.rstrip("/"),
        headers=parse_headers(headers, setting=setting),
    )


def parse_headers(text: str, *, setting: str = "TRACEREEL_FORWARD") -> dict[str, str]:
    """Parse comma-separated `name=value` pairs with percent-encoded values, as in OTEL variables."""
    found = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = pair.partition("=")
        name, value = name.strip().lower(), unquote(value.strip())
        if (
            not equals
            or not _HEADER_NAME.fullmatch(name)
            or name in _OURS
            or not value.isprintable()
        ):
            raise StartupError(
                f"{setting}_HEADERS: {name[:40]!r} cannot be used; expected name=value pairs,"
                " separated by commas"
            )
        found[name] = value
    return found


def parse_signals(
    text: str, *, known: Iterable[str] = SIGNALS, setting: str = "TRACEREEL_FORWARD"
) -> frozenset[str]:
    """Parse the `_SIGNALS` setting that starts with `setting`; may raise StartupError."""
    names = frozenset(filter(None, (each.strip() for each in text.split(","))))
    if unknown := sorted(names.difference(known)):
        raise StartupError(
            f"{setting}_SIGNALS: {unknown[0]!r} is not known; expected {', '.join(known)}"
        )
    return names


def check_not_ourselves(
    target: Target, *, host: str, port: int, setting: str = "TRACEREEL_FORWARD"
) -> None:
    """Raise StartupError if a target is this collector's own listening address."""
    if not port or target.port != port:
        return
    wild = host in ("0.0.0.0", "::", "")
    theirs = _addresses(target.host)
    if any(map(_is_here, theirs)) if wild else theirs & _addresses(host):
        raise StartupError(
            f"{setting}_TO is this collector itself ({target.host}:{target.port})",
            hint="name another OTLP endpoint",
        )


def _is_here(address: str) -> bool:
    """Return whether an address is local: only local addresses can be bound."""
    if ipaddress.ip_address(address).is_loopback:
        return True
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _addresses(host: str) -> set[str]:
    try:
        return {str(each[4][0]).partition("%")[0] for each in socket.getaddrinfo(host, None)}
    except OSError:
        return set()  # not resolvable now, so not known to be this collector
