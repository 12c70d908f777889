"""Which key a request carries: those of the settings and those of the keystore, as one set."""

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tracereel_collector.auth.cookie import cookie_in, is_own_page
from tracereel_collector.auth.keys import (
    DEFAULT_TENANT,
    GRANTABLE,
    MAX_KEY_CHARS,
    ORDINARY,
    Key,
    Scope,
    digest_of,
    id_in,
)
from tracereel_collector.errors import StartupError

_NOBODY: Final = bytes(32)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_in(headers: Mapping[str, str]) -> str:
    """The key a request carries in its headers; a key in an address would end up in logs."""
    key = headers.get("x-api-key") or ""
    if not key:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else ""
    if not key and "cookie" in headers and is_own_page(headers):
        key = cookie_in(headers["cookie"])
    return key


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose key it is; `state` is `active`, `expired` or `revoked`."""

    key_id: str
    tenant: str
    scopes: frozenset[Scope]
    state: str = "active"


OPEN: Final = Identity("", DEFAULT_TENANT, GRANTABLE)
"""Everybody, where no key was ever made."""


def parse_static(pairs: str) -> dict[bytes, Identity]:
    """Read `tenant:key,tenant:key`, the keys of `TRACEREEL_API_KEYS`, by digest.

    Raises:
        StartupError: a pair is malformed.
    """
    found: dict[bytes, Identity] = {}
    for position, pair in enumerate(filter(None, (part.strip() for part in pairs.split(","))), 1):
        tenant, separator, key = pair.partition(":")
        if not (separator and tenant and key):
            raise StartupError(
                f"TRACEREEL_API_KEYS: entry {position} is not of the form tenant:key"
            )
        # Named by its place: a digest of something guessable would be worth guessing at.
        found[digest_of(key)] = Identity(f"static-{position}", tenant, ORDINARY)
    return found


@dataclass(frozen=True, slots=True)
class Keyring:
    """All keys at one moment; replaced as a whole when one is made or revoked."""

    static: Mapping[bytes, Identity] = field(default_factory=dict)
    stored: Mapping[str, Key] = field(default_factory=dict)
    needed: bool = False

    @property
    def open(self) -> bool:
        """Whether no key was ever made: revoking the last one does not open the door."""
        return not (self.needed or self.static or self.stored)

    def has_active(self, now_unix: float) -> bool:
        """Whether anybody could come in."""
        return bool(self.static) or any(
            key.state(now_unix) == "active" for key in self.stored.values()
        )

    def identify(self, key: str, now_unix: float) -> Identity | None:
        """Whose key this is; None where it is nobody's.

        The id in a key is public and finds the one digest to compare with. An unknown id is compared
        too, with nobody's digest, and static keys all of them: timing tells nothing.
        """
        if len(key) > MAX_KEY_CHARS:
            return None
        given = digest_of(key)
        candidate = self.stored.get(id_in(key))
        found: Identity | None = None
        if hmac.compare_digest(candidate.digest if candidate else _NOBODY, given) and candidate:
            found = Identity(
                candidate.id, candidate.tenant, candidate.scopes, candidate.state(now_unix)
            )
        for digest, identity in self.static.items():
            if hmac.compare_digest(digest, given):
                found = identity
        return found
