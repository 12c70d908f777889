"""Lookup of a request's key among static and stored keys."""

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tracereel_collector.auth.keys import (
    DEFAULT_TENANT,
    GRANTABLE,
    MAX_KEY_CHARS,
    ORDINARY,
    Key,
    KeyScope,
    digest_of,
    id_in,
)
from tracereel_collector.auth.sessions import LoginSession
from tracereel_collector.auth.static_keys import read_static_keys

_NOBODY: Final = bytes(32)
NO_KEY: Final = "none"
"""Fingerprint of requests without a key."""


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_in(headers: Mapping[str, str]) -> str:
    """Return the key in a request's headers; keys in URLs would be logged."""
    key = headers.get("x-api-key") or ""
    if not key:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else ""
    return key


@dataclass(frozen=True, slots=True)
class Identity:
    """Owner and scopes of a key; `state` is `active`, `expired` or `revoked`."""

    key_id: str
    tenant: str
    scopes: frozenset[KeyScope]
    state: str = "active"


OPEN: Final = Identity("", DEFAULT_TENANT, ORDINARY)
"""Identity of local requests while no key was ever created."""
OPEN_ADMIN: Final = Identity("", DEFAULT_TENANT, GRANTABLE)
"""The same with administration allowed by the operator."""


def parse_static(pairs: str) -> dict[bytes, Identity]:
    """Read the keys of `TRACEREEL_API_KEYS`, by digest.

    Raises:
        StartupError: an entry is invalid.
    """
    # Named by position: the digest of a weak key could be attacked offline.
    return {
        digest_of(each.key): Identity(f"static-{each.position}", each.tenant, each.scopes)
        for each in read_static_keys(pairs)
    }


@dataclass(frozen=True, slots=True)
class Keyring:
    """Immutable set of all keys; replaced when one is created or revoked."""

    static: Mapping[bytes, Identity] = field(default_factory=dict)
    stored: Mapping[str, Key] = field(default_factory=dict)
    needed: bool = False

    @property
    def open(self) -> bool:
        """Whether no key was ever created; revoking the last one does not open access."""
        return not (self.needed or self.static or self.stored)

    def has_active(self, now_unix: float) -> bool:
        """Return whether any key is active."""
        return bool(self.static) or any(
            key.state(now_unix) == "active" for key in self.stored.values()
        )

    def has_several_tenants(self, now_unix: float) -> bool:
        """Return whether several tenants have an active key."""
        tenants = {identity.tenant for identity in self.static.values()}
        tenants |= {key.tenant for key in self.stored.values() if key.state(now_unix) == "active"}
        return len(tenants) > 1

    def identify(self, key: str, now_unix: float) -> Identity | None:
        """Return the owner of a key; None if it is unknown.

        The id in a key is public and selects the digest to compare with. An unknown id is compared with
        a dummy digest, and static keys are all compared, so that timing reveals nothing.
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

    def state_of(self, fingerprint: str, *, tenant: str, now_unix: float) -> str:
        """Return the state of a tenant's key by its fingerprint, or `unknown`."""
        if self.open:
            return "active"
        if fingerprint == NO_KEY:
            # Without keys all data belonged to the default tenant, which now needs a key.
            return "revoked" if tenant == DEFAULT_TENANT else "unknown"
        for digest, identity in self.static.items():
            if identity.tenant == tenant and digest.hex().startswith(fingerprint):
                return "active"
        for key in self.stored.values():
            if key.tenant == tenant and key.digest.hex().startswith(fingerprint):
                return key.state(now_unix)
        return "unknown"

    def identify_session(
        self, session: LoginSession, token: str, now_unix: float
    ) -> Identity | None:
        """Return the identity of a session with the key's current scopes; None without its key."""
        key = self.stored.get(session.key_id)
        if key is not None:
            known = Identity(key.id, key.tenant, key.scopes, key.state(now_unix))
            return known if session.belongs_to(token, key.digest) else None
        for digest, identity in self.static.items():
            if identity.key_id == session.key_id and session.belongs_to(token, digest):
                return identity
        return None
