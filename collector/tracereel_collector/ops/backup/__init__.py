"""Consistent backup and restore of queue, store, keys and audit log.

A backup (`save.py`) is a directory
    manifest.json   contents with sizes and checksums; written last, so a backup without it is incomplete
    queue.sqlite    the queue: bodies acknowledged but not yet in the store, the ledger, counters
    store.tar       the database, as written by ClickHouse's BACKUP
    keys.sqlite     digests of the API keys, if there are keys
    clock.json      the collector's clock file, if there is one
    audit/          the audit log

Queue and store are saved together because a restored store has lost its insert deduplication tokens:
a queue that delivers a batch again would store it twice. So delivery pauses between two batches while
both are saved. Requests are still accepted into the queue meanwhile.
"""
