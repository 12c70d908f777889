"""A program that sends twenty lone events, two thousand at once, and a failed run.

Prints counts of each as JSON: eleven of twelve runs succeed.
"""

import json
import time

from prometheus_client import CollectorRegistry, generate_latest

import tracereel

registry = CollectorRegistry()
tracereel.configure(registry=registry)
DELIVERED = "tracereel_sdk_delivery_seconds"


def value(name: str, **labels: str) -> int:
    return int(registry.get_sample_value(name, labels) or 0)


def wait_for(count: int) -> None:
    while value(f"{DELIVERED}_count") < count:
        time.sleep(0.001)  # the shipper works alone; nothing is flushed


@tracereel.traced_agent("lone_agent")
def lone() -> None: ...


for number in range(1, 11):
    lone()
    wait_for(number * 2)

within = value(f"{DELIVERED}_bucket", le="0.1")
total = value(f"{DELIVERED}_count")

with tracereel.traced_agent("busy_agent", trace_id="trc_many") as execution:
    for number in range(1998):
        execution.emit({"event_type": "custom.measurement", "number": number})
result = tracereel.flush(60.0)
many = {
    "recorded": value("tracereel_sdk_events_total", outcome="recorded") - total,
    "delivered": result.delivered - total,
    "dropped": result.dropped,
}

try:
    with tracereel.traced_agent("failing_agent"):
        raise RuntimeError("unexpected")
except RuntimeError:
    pass
tracereel.flush(60.0)
exposition = generate_latest(registry).decode()
print(json.dumps({"lone": [within, total], "many": many, "exposition": exposition}))
