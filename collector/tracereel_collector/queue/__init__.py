"""Durable queue between the HTTP endpoints and the store: one SQLite file.

Layout (`schema.sql`)
    bodies      checked request bodies as raw bytes, each with a checksum and its sequence numbers
    batches     sealed ranges of bodies: each is one insert under one token that never changes
    emitters    numbers seen from each emitter (deduplicates resends of shippers)
    digests     digests of recent bodies (deduplicates resends of exporters)
    held_bytes  undelivered and quarantined bytes by kind and tenant, updated in the same transactions
    counters    conservation counters, updated in the transaction that they count
    quarantine  records that the store refused for their content, with the reason
    relays      outbox: bodies that another member of the group owns (`relays.sql`)

Invariants
    1. `append` resolves after the commit is on disk (WAL, synchronous=FULL); appends share commits.
    2. Numbers are never used twice: sequence numbers come from a counter in the same transaction,
       body and batch ids are AUTOINCREMENT, and tokens contain the queue's UUID.
    3. A sealed batch keeps its range and token on every retry, across restarts.
    4. received = rejected + appended;
       appended = stored + duplicate + quarantined - retried + relayed + pending.
    5. Everything is bounded: bytes waiting for a commit, bytes undelivered, delivered bodies kept.

Failure
    On a full disk appends are refused and a reserve file is deleted, so that deletes still succeed.
    A damaged file is renamed; its readable rows are copied into a new queue, and the lost ones are
    counted as quarantined and as damaged.
"""

from tracereel_collector.queue.admission import QueueLimits
from tracereel_collector.queue.queue import DurableQueue

__all__ = ["DurableQueue", "QueueLimits"]
