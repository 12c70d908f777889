"""Who is asking and what they may do: keys, scopes, tenants, limits and the audit log.

    keys      what a key is made of, and what is kept of it
    keystore  the keys in the data directory (SQLite)
    keyring   which key a request carries: static ones and those of the keystore, as one set
    claims    what in a request names a tenant: it must name the key's own
    guard     addresses that try keys which are none are slowed down
    limits    records and bytes a key may send per second
    audit     what was done with which key, appended to a file
    gate      all of it in the order a request meets it

The tenant of a request is the tenant of its key. Nothing else in a request can change it.
"""

from tracereel_collector.auth.gate import Caller, Gate
from tracereel_collector.auth.keys import Scope

__all__ = ["Caller", "Gate", "Scope"]
