"""Sender of numbered records that records acknowledgements, whatever dies meanwhile.

    python -m tests.support.oracle URL[,URL…] RUN_ID SEED [otlp] [again]

With several URLs, each attempt goes to the next one, so that a resend reaches another collector.
Each line on stdout is one acknowledged batch: trace id and the ids of its events. A batch without
a response is resent with the same bytes until it is acknowledged. With `otlp`, spans and metric points
are sent as well; their trace ids begin with `spans:` and `metrics:`. With `again`, one of eight
acknowledged batches is sent once more, as by a sender that did not get the answer. A line on stdin (or its
end) makes the oracle finish its current batch and stop.
"""

import http.client
import itertools
import json
import os
import random
import sys
import threading
import time
from urllib.parse import urlsplit

SENDERS = 3
GIVE_UP_SECONDS = 600


def batches(run_id, sender, seed):
    """Yield batches; every other sender has a ledger, to test both ways."""
    rnd = random.Random(seed * 100 + sender)
    number = 0
    while True:
        trace = f"{run_id}-{sender}-{number // 40}"
        events = []
        for _ in range(rnd.randint(1, 40)):
            number += 1
            event = {
                "event_id": f"{run_id}-{sender}-{number}",
                "event_type": "custom.oracle",
                "timestamp": "2026-01-23T10:00:00Z",
                "trace_id": trace,
                "text": "x" * rnd.randint(0, 900),
            }
            if sender % 2:
                event |= {"emitter_id": f"{run_id}-{sender}", "emitter_seq": number}
            events.append(event)
        body = b"\n".join(json.dumps(each).encode() for each in events)
        yield "/v1/events", body, trace, [each["event_id"] for each in events]


def spans(run_id, sender, seed):
    """Yield batches of spans."""
    rnd = random.Random(seed * 100 + sender)
    while True:
        trace = f"{rnd.getrandbits(128):032x}"
        ids = [f"{rnd.getrandbits(64):016x}" for _ in range(rnd.randint(1, 20))]
        made = [
            {
                "traceId": trace,
                "spanId": each,
                "name": run_id,
                "startTimeUnixNano": "1769162400000000000",
                "endTimeUnixNano": "1769162400000000001",
            }
            for each in ids
        ]
        body = {"resourceSpans": [{"scopeSpans": [{"spans": made}]}]}
        yield "/v1/traces", json.dumps(body).encode(), f"spans:{trace}", ids


def metrics(run_id, sender, seed):
    """Yield batches of metric points, each of a metric of its own."""
    rnd = random.Random(seed * 100 + sender)
    number = 0
    while True:
        ids = []
        for _ in range(rnd.randint(1, 40)):
            number += 1
            ids.append(f"{run_id}-{sender}-{number}")
        point = {"timeUnixNano": "1769162400000000000", "asDouble": rnd.random()}
        made = [{"name": each, "gauge": {"dataPoints": [point]}} for each in ids]
        body = {"resourceMetrics": [{"scopeMetrics": [{"metrics": made}]}]}
        yield "/v1/metrics", json.dumps(body).encode(), f"metrics:{ids[0]}", ids


HEADERS = {}
if os.environ.get("TRACEREEL_API_KEY"):
    HEADERS["x-api-key"] = os.environ["TRACEREEL_API_KEY"]


def send_until_acknowledged(addresses, path, body):
    kind = "application/x-ndjson" if path == "/v1/events" else "application/json"
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(*next(addresses), timeout=10)
        try:
            connection.request("POST", path, body, {**HEADERS, "Content-Type": kind})
            response = connection.getresponse()
            answer = response.read()
            if response.status == 200:
                return
            if response.status not in (429, 502, 503, 504):
                raise SystemExit(f"unexpected {response.status}: {answer!r}")
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.02)
    raise SystemExit("no acknowledgement within the deadline")


def main():
    urls = [urlsplit(each) for each in sys.argv[1].split(",")]
    addresses = [(url.hostname, url.port) for url in urls]
    run_id, seed, kinds = sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    stop = threading.Event()
    printing = threading.Lock()

    def run(sender, make):
        turns = itertools.cycle(addresses)
        # Rows of many traces and metrics cost the store far more than events of few.
        pause = 0.0 if make is batches else 0.05
        forgetful = random.Random(seed * 100 + sender + 50)
        for path, body, trace, ids in make(run_id, sender, seed):
            send_until_acknowledged(turns, path, body)
            if "again" in kinds and forgetful.random() < 1 / 8:
                send_until_acknowledged(turns, path, body)
            with printing:
                print(json.dumps([trace, ids]), flush=True)
            if stop.wait(pause):
                return

    made = [*[batches] * SENDERS, *((spans, metrics) if "otlp" in kinds else ())]
    threads = [threading.Thread(target=run, args=each) for each in enumerate(made)]
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    stop.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
