"""Sender of numbered events that records acknowledgements, whatever dies meanwhile.

    python -m tests.support.oracle URL RUN_ID SEED

Each line on stdout is one acknowledged batch: trace id and the ids of its events. A batch without
a response is resent with the same bytes until it is acknowledged. A line on stdin (or its end) makes
the oracle finish its current batch and stop.
"""

import http.client
import json
import os
import random
import sys
import threading
import time
from urllib.parse import urlsplit

SENDERS = 3
GIVE_UP_SECONDS = 120


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
        yield trace, events


HEADERS = {"Content-Type": "application/x-ndjson"}
if os.environ.get("TRACEREEL_API_KEY"):
    HEADERS["x-api-key"] = os.environ["TRACEREEL_API_KEY"]


def send_until_acknowledged(address, body):
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(*address, timeout=10)
        try:
            connection.request("POST", "/v1/events", body, HEADERS)
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
    url, run_id, seed = urlsplit(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    stop = threading.Event()
    printing = threading.Lock()

    def run(sender):
        for trace, events in batches(run_id, sender, seed):
            body = b"\n".join(json.dumps(each).encode() for each in events)
            send_until_acknowledged((url.hostname, url.port), body)
            with printing:
                print(json.dumps([trace, [each["event_id"] for each in events]]), flush=True)
            if stop.is_set():
                return

    threads = [threading.Thread(target=run, args=(sender,)) for sender in range(SENDERS)]
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    stop.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
