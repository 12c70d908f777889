"""Lookup of a request's key among stored keys and static ones from `TRACEREEL_API_KEYS`."""

import hmac
import ipaddress
import re
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
    check_tenant,
    digest_of,
    id_in,
    parse_scopes,
)
from tracereel_collector.auth.sessions import LoginSession
from tracereel_collector.errors import BadRequestError, StartupError

MIN_KEY_CHARS: Final = 20
_KEY: Final = re.compile(r"[!-~]+")
_NO_DIGEST: Final = bytes(32)
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


def read_static_keys(pairs: str) -> dict[str, Identity]:
    """Read `tenant:key` and `tenant/scopes:key` entries, separated by commas.

    Raises:
        StartupError: an entry is malformed, or its key is too short.
    """
    found: dict[str, Identity] = {}
    for position, pair in enumerate(filter(None, (part.strip() for part in pairs.split(","))), 1):
        entry = f"TRACEREEL_API_KEYS: entry {position}"
        owner, _, key = pair.partition(":")
        tenant, slash, scopes = owner.partition("/")
        if not (tenant and key):
            raise StartupError(f"{entry} is not of the form tenant:key or tenant/scopes:key")
        if not MIN_KEY_CHARS <= len(key) <= MAX_KEY_CHARS or _KEY.fullmatch(key) is None:
            raise StartupError(
                f"{entry} has a key of {len(key)} characters; expected {MIN_KEY_CHARS} to"
                f" {MAX_KEY_CHARS} printable ASCII characters without spaces",
                hint="make a random one with `openssl rand -hex 24`, or use `tracereel keys create`",
            )
        if key in found:
            raise StartupError(f"{entry} has the key of another entry; expected keys of their own")
        try:
            granted = parse_scopes(scopes.replace("+", ",")) if slash else ORDINARY
            # Named by position: the digest of a weak key could be attacked offline.
            found[key] = Identity(f"static-{position}", check_tenant(tenant), granted)
        except BadRequestError as error:
            raise StartupError(f"{entry}: {error.message}") from error
        if not granted <= ORDINARY:
            raise StartupError(
                f"{entry}: a key of the environment cannot have the scope admin;"
                " expected read, write or read+write",
                hint="make one with `tracereel keys create --scope admin`",
            )
    return found


def parse_static(pairs: str) -> dict[bytes, Identity]:
    """Read static keys, by digest."""
    return {digest_of(key): identity for key, identity in read_static_keys(pairs).items()}


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
        if hmac.compare_digest(candidate.digest if candidate else _NO_DIGEST, given) and candidate:
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
