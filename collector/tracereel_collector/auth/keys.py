"""What a key is made of (`trk_<id>_<secret>`), what it may do, and what is kept of it."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tracereel_collector.errors import BadRequestError

PREFIX: Final = "trk_"
ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
MAX_KEY_CHARS: Final = 512
"""Longer texts in a header are no key of ours."""
DEFAULT_TENANT: Final = "default"
TENANT_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_KEY: Final = re.compile(r"trk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
MAX_NAME: Final = 100


class Scope(StrEnum):
    """What a route demands; all but `public` can be granted to a key."""

    PUBLIC = "public"
    WRITE = "write"
    READ = "read"
    ADMIN = "admin"


GRANTABLE: Final = frozenset({Scope.WRITE, Scope.READ, Scope.ADMIN})
ORDINARY: Final = frozenset({Scope.WRITE, Scope.READ})
"""What a static key grants: no administration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as it is kept: everything but the key itself."""

    id: str
    tenant: str
    name: str
    scopes: frozenset[Scope]
    digest: bytes
    created_unix: int
    expires_unix: int | None = None
    revoked_unix: int | None = None

    def state(self, now_unix: float) -> str:
        """`active`, `expired` or `revoked`."""
        if self.revoked_unix is not None:
            return "revoked"
        return (
            "expired"
            if self.expires_unix is not None and now_unix >= self.expires_unix
            else "active"
        )


def digest_of(key: str) -> bytes:
    """What is kept of a key.

    A plain SHA-256 is right here, a slow password hash is not: a key holds 256 random bits, which
    nobody finds by trying, however fast a try is; and every request pays for one.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def new_key() -> tuple[str, str]:
    """A fresh key and its id; the id is part of the key and no secret."""
    key_id = secrets.token_hex(ID_BYTES)
    return f"{PREFIX}{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}", key_id


def id_in(key: str) -> str:
    """The id a key names; empty for what does not look like one of ours."""
    found = _KEY.fullmatch(key)
    return found.group(1) if found else ""


def parse_scopes(text: str) -> frozenset[Scope]:
    """`write,read` as scopes.

    Raises:
        BadRequestError: one is unknown, or there is none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    accepted = ", ".join(sorted(GRANTABLE))
    unknown = [name for name in names if name not in GRANTABLE]
    if unknown or not names:
        raise BadRequestError(
            f"scope is {text!r}; expected some of {accepted}, with commas between"
        )
    return frozenset(Scope(name) for name in names)


def check_tenant(tenant: str) -> str:
    """The tenant itself.

    Raises:
        BadRequestError: it cannot be the name of one.
    """
    if TENANT_PATTERN.fullmatch(tenant) is None:
        raise BadRequestError(
            f"tenant is {tenant[:80]!r}; expected 1 to 63 letters, digits and _ . -,"
            " the first a letter or digit"
        )
    return tenant


def check_name(name: str) -> str:
    """The name itself.

    Raises:
        BadRequestError: it is too long or holds what a terminal would act on.
    """
    if len(name) > MAX_NAME or not name.isprintable():
        raise BadRequestError(
            f"name is {name[:120]!r}; expected at most {MAX_NAME} printable characters"
        )
    return name
