"""Key format (`trk_<id>_<secret>`), scopes, expiry, and the record of a key."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from tracereel_collector.errors import BadRequestError

PREFIX: Final = "trk_"
ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
MAX_KEY_CHARS: Final = 512
"""Longer header values are never valid keys."""
DEFAULT_TENANT: Final = "default"
TENANT_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_KEY: Final = re.compile(r"trk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
MAX_NAME: Final = 100
_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


class KeyScope(StrEnum):
    """Scope that a route requires; all but `public` can be granted to a key."""

    PUBLIC = "public"
    WRITE = "write"
    READ = "read"
    ADMIN = "admin"


GRANTABLE: Final = frozenset({KeyScope.WRITE, KeyScope.READ, KeyScope.ADMIN})
ORDINARY: Final = frozenset({KeyScope.WRITE, KeyScope.READ})
"""Default scopes of a static key, without administration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Record of a key, without its secret."""

    id: str
    tenant: str
    scopes: frozenset[KeyScope]
    digest: bytes
    name: str = ""
    created_unix: int = 0
    expires_unix: int | None = None
    revoked_unix: int | None = None

    def state(self, now_unix: float) -> str:
        """Return `active`, `expired` or `revoked`."""
        if self.revoked_unix is not None:
            return "revoked"
        is_expired = self.expires_unix is not None and now_unix >= self.expires_unix
        return "expired" if is_expired else "active"


def digest_of(key: str) -> bytes:
    """Return the stored digest of a key.

    SHA-256 suffices: a key has 256 random bits, which cannot be guessed at any hash speed. A slow
    password hash would cost time in every request.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def new_key() -> tuple[str, str]:
    """Return a new key and its id, which is part of the key and not secret."""
    key_id = secrets.token_hex(ID_BYTES)
    return f"{PREFIX}{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}", key_id


def id_in(key: str) -> str:
    """Return the id in a key; empty if the format is not ours."""
    found = _KEY.fullmatch(key)
    return found.group(1) if found else ""


def parse_scopes(text: str) -> frozenset[KeyScope]:
    """Parse scopes such as `write,read`; refuse unknown ones and an empty list."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    accepted = ", ".join(sorted(GRANTABLE))
    unknown = [name for name in names if name not in GRANTABLE]
    if unknown or not names:
        raise BadRequestError(
            f"scope is {text!r}; expected some of {accepted}, with commas between"
        )
    return frozenset(KeyScope(name) for name in names)


def check_tenant(tenant: str) -> str:
    """Return the tenant if its name is valid, else raise BadRequestError."""
    if TENANT_PATTERN.fullmatch(tenant) is None:
        raise BadRequestError(
            f"tenant is {tenant[:80]!r}; expected 1 to 63 letters, digits and _ . -,"
            " the first a letter or digit"
        )
    return tenant


def check_name(name: str) -> str:
    """Return the name of a key if it is short and printable, else raise BadRequestError."""
    if len(name) > MAX_NAME or not name.isprintable():
        raise BadRequestError(
            f"name is {name[:120]!r}; expected at most {MAX_NAME} printable characters"
        )
    return name


def parse_expiry(text: str, *, now_unix: float) -> int:
    """Parse `90d`, `12h`, or an ISO date or time into Unix seconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is not None:
        return int(now_unix) + int(found.group(1)) * _SECONDS[found.group(2)]
    try:
        moment = datetime.fromisoformat(text.strip())
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise BadRequestError(
            f"expires is {text[:40]!r}; expected a duration such as 90d or 12h, or 2027-01-31"
        ) from error
    return int(min(seconds, _LATEST))
