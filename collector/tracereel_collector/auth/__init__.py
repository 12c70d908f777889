"""Authentication and authorisation: keys, scopes, tenants, limits and the audit log.

    keys         key format, scopes and the stored record of a key
    keystore     keys in the data directory (SQLite)
    static_keys  keys from the environment
    keyring      lookup of a request's key among static and stored keys
    sessions     login sessions of the page (SQLite)
    cookie       session cookie and when it is accepted
    public_url   address that browsers use, and whether it uses TLS
    origins      web origins that may use the collector
    claims       tenant names in requests, which must match the key's tenant
    guard        slows down addresses that try invalid keys
    limits       records and bytes that a key may send per second
    audit        append-only log of key usage and administration
    gate         applies all checks to a request, in order

The tenant of a request is the tenant of its key. Nothing else in a request can change it.
"""

from tracereel_collector.auth.gate import AccessGate, Caller
from tracereel_collector.auth.keys import KeyScope

__all__ = ["AccessGate", "Caller", "KeyScope"]
