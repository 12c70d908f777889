"""Public address of the collector for browsers, and whether it uses TLS."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tracereel_collector.errors import StartupError

_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicUrl:
    """Public address; `origin` is `https://host[:port]`, or empty if not configured."""

    origin: str = ""
    trust_forwarded_proto: bool = False

    def is_https(self, headers: Mapping[str, str]) -> bool:
        """Return whether the browser's connection uses TLS, as far as the settings tell."""
        if self.origin.startswith("https:"):
            return True
        if not self.trust_forwarded_proto:
            return False
        # Proxies append to the list; the first entry is the browser's connection.
        first = headers.get("x-forwarded-proto", "").partition(",")[0]
        return first.strip().lower() == "https"

    def is_own(self, origin: str, headers: Mapping[str, str]) -> bool:
        """Return whether an origin is the collector's own page."""
        host = netloc_of(origin)
        if self.origin and host == netloc_of(self.origin):
            return origin == self.origin  # without TLS an attacker may serve the same host name
        return bool(host) and host == headers.get("host", "")


def parse_public_url(text: str, *, trust_forwarded_proto: bool = False) -> PublicUrl:
    """Parse `TRACEREEL_PUBLIC_URL`.

    Raises:
        StartupError: it is not of the form https://host[:port].
    """
    text = text.strip().rstrip("/")
    if not text:
        return PublicUrl(trust_forwarded_proto=trust_forwarded_proto)
    try:
        parts = urlsplit(text.lower())
        is_url = parts.scheme in _DEFAULT_PORTS and parts.hostname and (parts.port or 1)
    except ValueError:
        is_url = False
    if not is_url or f"{parts.scheme}://{parts.netloc}" != text.lower() or "@" in parts.netloc:
        raise StartupError(
            f"TRACEREEL_PUBLIC_URL: {text!r} is not of the form https://host[:port];"
            " the collector is served at the root of its host"
        )
    # Normalised like the `Origin` header: lower case and without the default port.
    host = parts.netloc.removesuffix(_DEFAULT_PORTS[parts.scheme])
    return PublicUrl(origin=f"{parts.scheme}://{host}", trust_forwarded_proto=trust_forwarded_proto)


def netloc_of(origin: str) -> str:
    """Return the host and port of an origin; empty if it is invalid."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
