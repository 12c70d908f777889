"""The cookie that the page's visitors hold instead of a key, and when it counts.

A browser sends a cookie by itself, also when another site makes it ask. So the cookie is
`SameSite=Strict`, and counts only for requests that say they come from the collector's own page,
or that a person made by opening an address.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

COOKIE: Final = "tracereel_key"
SECONDS: Final = 30 * 24 * 3600
_OWN_SITES: Final = ("same-origin", "none")


def cookie_in(header: str) -> str:
    """The key in a `Cookie` header; empty when there is none."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def is_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from the collector's own page, as the browser says."""
    if (site := headers.get("sec-fetch-site")) is not None:
        return site in _OWN_SITES
    # Over plain HTTP beyond loopback browsers do not say it; then the origin must, or the page named.
    named = headers.get("origin") or headers.get("referer")
    if named is None:
        return True
    try:
        return urlsplit(named).netloc == headers.get("host", "")
    except ValueError:
        return False


def set_cookie(key: str, *, secure: bool) -> str:
    """The `Set-Cookie` header that logs in; without a key, the one that logs out."""
    age = SECONDS if key else 0
    ending = "; Secure" if secure else ""
    return f"{COOKIE}={key}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{ending}"
