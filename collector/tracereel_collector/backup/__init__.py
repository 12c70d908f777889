"""Backup and restore: queue, store, keys and audit log of one moment, in one directory.

A backup (`save.py`) is a directory
    manifest.json   what is in it, with sizes and checksums; written last, so that without it the
                    backup is not complete
    queue.sqlite    the queue: all that was acknowledged and not yet in the store, the ledger, counters
    store.tar       the database, as ClickHouse's BACKUP writes it
    keys.sqlite     digests of the API keys, where there are keys
    audit/          the audit log

Why together: a restored store has forgotten the tokens of its inserts. A queue that would deliver again
what the store already has would store it twice. So delivery pauses between two batches, and both are
saved as they are then. Requests are answered meanwhile, into the queue.
"""
