"""Writers of a store as several collectors are: each repeats what is refused, with the same token."""

import json
import threading
import time
import uuid

from tests.support.contract import EXAMPLES
from tests.support.waiting import wait_until
from tracereel_collector.errors import RetryableError
from tracereel_collector.model import Kind, QueuedBody

GIVE_UP_SECONDS = 120.0
RUNS = 40
"""Runs that are on every shard of a small cluster."""


def body_of(number, events, *, tenant="default"):
    """Return a body of events as delivery reads it from the queue."""
    return QueuedBody(
        id=number,
        kind=Kind.EVENTS,
        tenant=tenant,
        first_sequence_number=number,
        records=len(events),
        received_unix_nano=time.time_ns(),
        data=b"\n".join(json.dumps(each).encode() for each in events),
    )


def events_of(tenant, runs):
    """Return a body with one event of each run."""
    named = [{"event_id": f"{tenant}-{n}", "trace_id": f"run-{n}"} for n in range(runs)]
    return body_of(1, [{**EXAMPLES[0], **each} for each in named], tenant=tenant)


class StoreWriter(threading.Thread):
    """Inserts runs of one event, one after another, each until it is stored."""

    def __init__(self, store, number):
        super().__init__(daemon=True)
        self.store, self.number = store, number
        self.stored = self.refused = 0
        self.failure = None
        self._stop_asked = threading.Event()

    def run(self):
        """Write until it is stopped."""
        try:
            while not self._stop_asked.is_set():
                self._insert()
        except Exception as error:
            self.failure = error

    def _insert(self):
        number = self.number * 1_000_000 + self.stored
        event = {**EXAMPLES[0], "event_id": str(number), "parent_trace_id": "above"}
        event["trace_id"] = f"run-{number}"
        body, token = body_of(number, [event]), uuid.uuid4().hex
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                self.store.insert(Kind.EVENTS, [body], token=token)
            except RetryableError:
                self.refused += 1
                if time.monotonic() > deadline:
                    raise
                self._stop_asked.wait(0.01)
            else:
                self.stored += 1
                return

    def wait_for(self, more):
        """Wait until it has stored some more."""
        goal = self.stored + more
        wait_until(lambda: self.stored >= goal or self.failure, timeout=GIVE_UP_SECONDS)

    def finish(self):
        """Stop it after its current insert and return the number of runs stored."""
        self._stop_asked.set()
        self.join(GIVE_UP_SECONDS)
        assert self.failure is None, self.failure
        return self.stored
