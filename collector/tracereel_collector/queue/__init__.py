"""The durable queue between the door and the store: one SQLite file.

Layout (`schema.sql`)
    bodies      checked request bodies as raw bytes, each with a checksum and its sequence numbers
    batches     sealed ranges of bodies: what one insert carries, under one token, for ever
    emitters    which numbers of each emitter have been seen (drops what a shipper sends twice)
    digests     recent bodies by digest (drops what an exporter sends twice)
    gauges      bytes pending, unsealed and in quarantine, the same way
    counters    the conservation counters, changed in the transaction they speak of
    quarantine  records the store refused for what they contain, with the reason

Invariants
    1. `append` answers after the commit is on disk (WAL, synchronous=FULL); waiting appends share one.
    2. Numbers are never used twice: sequence numbers come from a counter in the same transaction,
       body and batch ids are AUTOINCREMENT, and tokens carry the queue's own UUID.
    3. A sealed batch keeps its range and token on every retry, across restarts.
    4. received = rejected + appended;
       appended = stored + duplicate + quarantined - retried + pending.
    5. Everything is bounded: bytes waiting for a commit, bytes undelivered, delivered bodies kept.

Failure
    A full disk refuses appends and gives up a reserve file, so that deletes still succeed.
    A damaged file is set aside under another name; what can be read in it goes into a new queue, and
    what cannot is counted as quarantined and as damaged.
"""

from tracereel_collector.queue.queue import DurableQueue, QueueLimits

__all__ = ["DurableQueue", "QueueLimits"]
