"""Session cookie of the page and when it is accepted.

A browser sends cookies automatically, even with requests that another site causes. Therefore the
cookie is `SameSite=Strict`, and it is accepted only from the collector's own page or from
addresses that a user opened.
"""

from collections.abc import Mapping
from typing import Final

from tracereel_collector.auth.public_url import PublicUrl
from tracereel_collector.auth.sessions import LIFETIME_SECONDS

PLAIN: Final = "tracereel_session"
SECURE: Final = "__Host-tracereel_session"
"""Cookie name that browsers accept only over TLS, from this host, for all paths."""
OWN_SITES: Final = ("same-origin", "none")
"""Values of `Sec-Fetch-Site` that no other site can cause."""


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
