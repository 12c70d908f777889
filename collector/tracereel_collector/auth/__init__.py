"""Authentication and authorisation: keys, scopes, tenants, limits and the audit log.

    keys         key format, scopes, expiry and the record of a key
    keystore     creation, revocation and list of the keys in the data directory (SQLite)
    keyring      lookup of a request's key among static and stored keys
    sessions     login sessions of the page (SQLite)
    browsers     public address, session cookie, and web origins that may call
    claims       tenant names in requests, which must match the key's tenant
    guard        slows down addresses that try invalid keys
    limits       records and bytes that a key may send per second
    shared_file  counters that all workers share (SQLite)
    audit        append-only log of key usage and administration
    replicas     the same keys and sessions on all members of a group
    gate         applies all checks to a request, in order

The tenant of a request is the tenant of its key. Nothing else in a request can change it.
"""

from tracereel_collector.auth.gate import AccessGate, Caller
from tracereel_collector.auth.keys import KeyScope

__all__ = ["AccessGate", "Caller", "KeyScope"]
