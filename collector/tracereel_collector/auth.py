"""Who is asking: an API key belongs to exactly one tenant, and nothing in a request can change that."""

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from tracereel_collector.errors import StartupError, UnauthorizedError

DEFAULT_TENANT = "default"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Keyring:
    """Tenants by the digest of their keys; empty means an open collector on loopback."""

    tenants: Mapping[bytes, str]

    @classmethod
    def parse(cls, pairs: str, *, host: str) -> "Keyring":
        """Read `tenant:key,tenant:key`.

        Raises:
            StartupError: a pair is malformed, or the address is public and there is no key.
        """
        tenants: dict[bytes, str] = {}
        for position, pair in enumerate(filter(None, (part.strip() for part in pairs.split(",")))):
            tenant, separator, key = pair.partition(":")
            if not (separator and tenant and key):
                raise StartupError(
                    f"TRACEREEL_API_KEYS: entry {position + 1} is not of the form tenant:key"
                )
            tenants[_digest(key)] = tenant
        if not tenants and not is_loopback(host):
            raise StartupError(
                f"refusing to listen on {host} without API keys",
                hint="set TRACEREEL_API_KEYS=tenant:key, or listen on 127.0.0.1",
            )
        return cls(tenants)

    def tenant_of(self, headers: Mapping[str, str]) -> str:
        """The tenant whose key a request carries.

        Raises:
            UnauthorizedError: keys are configured and the request carries none of them.
        """
        if not self.tenants:
            return DEFAULT_TENANT
        key = headers.get("x-api-key") or ""
        if not key:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            key = token.strip() if scheme.lower() == "bearer" else ""
        given = _digest(key)
        # Every key is compared, in constant time, so that timing tells nothing.
        found = [
            name for digest, name in self.tenants.items() if hmac.compare_digest(digest, given)
        ]
        if not (key and found):
            raise UnauthorizedError(
                "a valid API key is required",
                hint="send x-api-key: KEY or Authorization: Bearer KEY",
            )
        return found[0]
