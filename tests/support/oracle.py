"""A process that sends numbered events and knows which were acknowledged, whatever dies meanwhile.

    python -m tests.support.oracle URL RUN_ID SEED

Each line on stdout is one acknowledged batch: trace id and the ids of its events. A batch without
an answer is sent again, the very same bytes, until it is acknowledged; a line on stdin (or its end)
tells the oracle to finish what is under way and stop.
"""

import http.client
import json
import random
import sys
import threading
import time
from urllib.parse import urlsplit

SENDERS = 3
GIVE_UP_SECONDS = 120


def batches(run_id, sender, seed):
    """Endless batches; every other sender has a ledger, so that both ways of sending are tried."""
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


def send_until_acknowledged(address, body):
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(*address, timeout=10)
        try:
            connection.request("POST", "/v1/events", body, {"Content-Type": "application/x-ndjson"})
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
