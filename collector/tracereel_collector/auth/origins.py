"""Requests that a web page makes: only from the collector's own pages, unless others are configured."""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from tracereel_collector.errors import ForbiddenError, StartupError

ANY: Final = "*"


class OriginRefusedError(ForbiddenError):
    """A web page from elsewhere."""

    code = "origin_not_allowed"


def parse_origins(text: str) -> tuple[str, ...]:
    """Read `https://a.example,https://b.example`.

    Raises:
        StartupError: one is no origin.
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


def check_origin(headers: Mapping[str, str], allowed: tuple[str, ...]) -> None:
    """Refuse what a page from elsewhere sends: some requests go out without asking (no preflight).

    Raises:
        OriginRefusedError: the origin is neither the collector's own nor configured.
    """
    origin = headers.get("origin")
    if origin is None or origin in allowed or ANY in allowed:
        return
    if _host_of(origin) != headers.get("host", ""):
        raise OriginRefusedError(
            f"origin {origin[:80]!r} may not use this collector",
            hint="name it in TRACEREEL_CORS_ORIGINS",
        )


def check_host(headers: Mapping[str, str]) -> None:
    """Refuse names from the public DNS where no key protects: a page could make one point here.

    Raises:
        OriginRefusedError: the request was made to a name that somebody else may own.
    """
    name = _name_of(headers.get("host", ""))
    if "." not in name or name.endswith(".localhost") or _is_address(name):
        return
    raise OriginRefusedError(
        f"host {name[:80]!r} may not be used without keys",
        hint="make a key with `tracereel keys create`, or use 127.0.0.1",
    )


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


@lru_cache(maxsize=256)  # every request of an exporter says the same
def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return "no.host"  # nonsense is nobody's name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
