"""Latency of `GET /v1/replay` of 50-event traces among many stored events.

    python bench/replay.py [--events 1000000] [--requests 400]

The events come in through the door, 100 traces interleaved as concurrent agents would send them.
"""

import argparse
import http.client
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent.parent))
from bench.load import event
from tests.support.collector import CollectorProcess

TRACE_EVENTS = 50
INTERLEAVED = 100
BATCH = 1_000


def fill(connection: http.client.HTTPConnection, events: int) -> list[str]:
    """Send the events, with progress; the ids of the complete traces."""
    rnd = random.Random(1)
    templates = [json.loads(event(rnd, "filler", number)) for number in range(500)]
    traces: list[str] = []
    open_traces = [f"{rnd.getrandbits(128):032x}" for _ in range(INTERLEAVED)]
    lines: list[bytes] = []
    started = time.perf_counter()
    for number in range(1, events + 1):
        if (number - 1) % (TRACE_EVENTS * INTERLEAVED) == 0:
            open_traces = [f"{rnd.getrandbits(128):032x}" for _ in range(INTERLEAVED)]
            traces += open_traces
        fields = {
            **templates[number % len(templates)],
            "event_id": f"evt_{rnd.getrandbits(96):024x}",
            "trace_id": open_traces[number % INTERLEAVED],
            "emitter_seq": number,
            "hlc": f"{1794794400000000000 + number:016x}",
        }
        lines.append(json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode())
        if len(lines) == BATCH or number == events:
            connection.request(
                "POST", "/v1/events", b"\n".join(lines), {"Content-Type": "application/x-ndjson"}
            )
            response = connection.getresponse()
            answer = response.read()
            if response.status != 200:
                raise SystemExit(f"{response.status}: {answer!r}")
            lines = []
            if number * 20 // events != (number - BATCH) * 20 // events:
                rate = number / (time.perf_counter() - started)
                print(f"{number:,} of {events:,} events sent ({rate:,.0f}/s)", file=sys.stderr)
    whole = events // (TRACE_EVENTS * INTERLEAVED) * INTERLEAVED
    return traces[:whole]


def measure(
    connection: http.client.HTTPConnection, traces: list[str], requests: int
) -> list[float]:
    """Milliseconds of each replay, every one of them checked to be complete."""
    times = []
    rnd = random.Random(2)
    for _ in range(requests):
        trace = rnd.choice(traces)
        started = time.perf_counter()
        connection.request("GET", f"/v1/replay/{trace}")
        body = connection.getresponse().read()
        times.append((time.perf_counter() - started) * 1e3)
        if json.loads(body)["summary"]["total_events"] != TRACE_EVENTS:
            raise SystemExit(f"trace {trace} is not complete: {body[-300:]!r}")
    return sorted(times)


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=400)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracereel-bench-") as folder:
        collector = CollectorProcess(Path(folder)).start()
        address = urlsplit(collector.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        traces = fill(connection, args.events)
        while collector.metric("tracereel_records_pending", kind="events"):
            time.sleep(0.1)
        measure(connection, traces, 20)
        times = measure(connection, traces, args.requests)
        stored = collector.metric("tracereel_records_stored_total", kind="events")
        collector.stop()
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    print(f"{os.cpu_count()} cores, {stored:,.0f} events stored, {args.requests} replays")
    print(f"replay of a {TRACE_EVENTS}-event trace: p50 {p50:.1f} ms, p99 {p99:.1f} ms")


if __name__ == "__main__":
    main()
