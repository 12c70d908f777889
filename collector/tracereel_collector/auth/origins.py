"""Checks of web origins: only the collector's own pages, unless others are configured."""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from tracereel_collector.auth.cookie import OWN_SITES
from tracereel_collector.auth.public_url import PublicUrl
from tracereel_collector.errors import ForbiddenError, StartupError

ANY: Final = "*"
MAX_ORIGIN: Final = 512
"""Longest origin or host that is parsed; DNS names have at most 253 characters."""


class OriginRefusedError(ForbiddenError):
    """The request comes from a web page of another site."""

    code = "origin_not_allowed"


def parse_origins(text: str) -> tuple[str, ...]:
    """Parse `https://a.example,https://b.example`.

    Raises:
        StartupError: an entry is not an origin.
    """
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

    Raises:
        OriginRefusedError: the page is neither the collector's own nor of a configured origin.
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
    """Refuse DNS names while no key is required, against DNS rebinding.

    Raises:
        OriginRefusedError: the request names a host that an attacker may control.
    """
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
