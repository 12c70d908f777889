"""Requests of browsers: public address, session cookie, and web origins that may call.

A browser sends cookies automatically, even with requests that another site causes. Therefore the
cookie is `SameSite=Strict`, and it is accepted only from the collector's own page or from
addresses that a user opened. Other pages may call only if their origin is configured.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from tracereel_collector.auth.sessions import LIFETIME_SECONDS
from tracereel_collector.errors import ForbiddenError, StartupError

_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
PLAIN: Final = "tracereel_session"
SECURE: Final = "__Host-tracereel_session"
"""Cookie name that browsers accept only over TLS, from this host, for all paths."""
OWN_SITES: Final = ("same-origin", "none")
"""Values of `Sec-Fetch-Site` that no other site can cause."""
ANY: Final = "*"
MAX_ORIGIN: Final = 512
"""Longest origin or host that is parsed; DNS names have at most 253 characters."""


class OriginRefusedError(ForbiddenError, code="origin_not_allowed"):
    """The request comes from a web page of another site."""

    reason = "origin"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicUrl:
    """Public address; `origin` is `https://host[:port]`, or empty if not configured."""

    origin: str = ""
    trust_forwarded_proto: bool = False

    def is_https(self, headers: Mapping[str, str]) -> bool:
        """Return whether the browser's connection uses TLS, according to the settings."""
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
    """Parse `TRACEREEL_PUBLIC_URL`; refuse any other form than https://host[:port]."""
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


def session_in(headers: Mapping[str, str], public: PublicUrl) -> str:
    """Return the session token of a request from the collector's page, else an empty string."""
    if "cookie" not in headers or not _is_own_page(headers, public):
        return ""
    # Over TLS the plain name is ignored: without TLS an attacker could have set it.
    wanted = _name(headers, public)
    for part in headers["cookie"].split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            return value
    return ""


def session_cookie(token: str, headers: Mapping[str, str], public: PublicUrl) -> str:
    """Return the `Set-Cookie` header that starts a session; an empty token ends it."""
    name = _name(headers, public)
    age = LIFETIME_SECONDS if token else 0
    ending = "; Secure" if name == SECURE else ""
    return f"{name}={token}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{ending}"


def _name(headers: Mapping[str, str], public: PublicUrl) -> str:
    return SECURE if public.is_https(headers) else PLAIN


def _is_own_page(headers: Mapping[str, str], public: PublicUrl) -> bool:
    if (site := headers.get("sec-fetch-site")) is not None:
        return site in OWN_SITES
    # Browsers omit Sec-Fetch-Site over plain HTTP beyond loopback; use Origin or Referer.
    if (origin := headers.get("origin")) is not None:
        return public.is_own(origin, headers)
    if (referer := headers.get("referer")) is None:
        return True
    return public.is_own("/".join(referer.split("/", 3)[:3]), headers)


def parse_origins(text: str) -> tuple[str, ...]:
    """Parse `https://a.example,https://b.example`; refuse entries that are not origins."""
    origins = tuple(filter(None, (part.strip().rstrip("/") for part in text.split(","))))
    for origin in origins:
        parts = urlsplit(origin)
        if origin != ANY and (
            parts.scheme not in ("http", "https") or parts.path or not parts.netloc
        ):
            raise StartupError(
                f"TRACEREEL_CORS_ORIGINS: {origin!r} is not of the form https://host[:port]"
            )
    return origins


def check_origin(headers: Mapping[str, str], allowed: tuple[str, ...], public: PublicUrl) -> None:
    """Refuse requests from pages of other sites, including those without a preflight.

    Image and script tags send no `Origin`, so a configured origin does not permit them.
    """
    origin = headers.get("origin")
    if origin is not None and (origin in allowed or ANY in allowed):
        return
    site = headers.get("sec-fetch-site")
    if site is not None and site not in OWN_SITES:
        raise OriginRefusedError(
            f"a page of another site may not use this collector (Sec-Fetch-Site: {site[:20]!r})",
            hint="pages named in TRACEREEL_CORS_ORIGINS may, with requests that carry an Origin",
        )
    if origin is not None and not public.is_own(origin, headers):
        raise OriginRefusedError(
            f"origin {origin[:80]!r} may not use this collector",
            hint="name it in TRACEREEL_CORS_ORIGINS; behind a proxy, set TRACEREEL_PUBLIC_URL",
        )


def check_host(headers: Mapping[str, str]) -> None:
    """Refuse DNS names while no key is required, against DNS rebinding."""
    name = _name_of(headers.get("host", ""))
    if "." not in name or name.endswith(".localhost") or _is_address(name):
        return
    raise OriginRefusedError(
        f"host {name[:80]!r} may not be used without keys",
        hint="make a key with `tracereel keys create`, or use 127.0.0.1",
    )


@lru_cache(maxsize=256)  # exporters send the same host in every request
def _name_of(host: str) -> str:
    if len(host) > MAX_ORIGIN:
        return "no.host"
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return "no.host"  # an invalid host is refused


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
