"""Appends numbered events and delivers them, in a process that may die at a given point.

    python -m tests.support.crashing QUEUE HOST PORT SECRET DATABASE HOW_MANY

Each line on stdout is the number of an acknowledged event. Every start sends all events again, like a
shipper that lost its progress.
"""

import json
import sys
import time
from pathlib import Path

from prometheus_client import CollectorRegistry

from tests.support.waiting import wait_until
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.model import Body, EmitterRun, Kind
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.telemetry import DeliveryMetrics


def main():
    path, host, port, secret, database, how_many = sys.argv[1:]
    queue = DurableQueue(
        Path(path),
        QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0),
    )
    store = ClickHouseStore(
        StoreAddress(
            host=host, port=int(port), username="tracereel", password=secret, database=database
        ),
        query_seconds=30,
        query_memory_bytes=1 << 30,
    )
    worker = DeliveryWorker(
        queue,
        store,
        BatchLimits(max_records=4, max_bytes=1 << 20, linger_seconds=0.0),
        metrics=DeliveryMetrics.register(CollectorRegistry()),
        prepare=lambda: None,
        on_delivered=lambda: None,
    )
    for number in range(1, int(how_many) + 1):
        event = {
            "event_id": f"{database}-{number}",
            "event_type": "custom.crash",
            "timestamp": "2026-01-23T10:00:00Z",
            "trace_id": "t",
        }
        body = Body(
            kind=Kind.EVENTS,
            tenant="default",
            received_unix_nano=time.time_ns(),
            data=json.dumps(event).encode(),
            records=1,
            runs=(EmitterRun("e", number, 1),),
        )
        queue.append(body).result(30)
        print(number, flush=True)
    worker.start()
    wait_until(
        lambda: not queue.has_open_batch(Kind.EVENTS) and queue.pending_bytes == 0, timeout=60
    )
    worker.stop(timeout=30)
    queue.close()
    store.close()


if __name__ == "__main__":
    main()
