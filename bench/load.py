"""A load generator in a process of its own: batches of events over kept-alive connections.

    python bench/load.py URL SECONDS SENDERS BATCH

Prints one JSON line: events acknowledged, seconds, answers that were not 200, latency percentiles.
"""

import http.client
import json
import random
import sys
import threading
import time
from urllib.parse import urlsplit

TEXT = "El usuario pide una cita mañana a las 10 con el Dr. Pérez en la clínica del centro. " * 3


def event(rnd: random.Random, emitter: str, number: int) -> bytes:
    """About 700 bytes, as the SDK would write them."""
    fields = {
        "event_id": f"evt_{rnd.getrandbits(96):024x}",
        "event_type": "agent.execution.completed",
        "event_version": "1.0.0",
        "timestamp": f"2026-11-16T02:00:00.{rnd.randrange(10**6):06d}Z",
        "trace_id": f"{rnd.getrandbits(128):032x}" if number % 50 == 1 else emitter,
        "agent_name": f"agent_{number % 7}",
        "agent_version": "1.0.0",
        "request_id": f"req_{number // 50}",
        "execution_time_ms": rnd.randrange(5000),
        "execution_time_seconds": 1.85,
        "output_type": "ParsingOutput",
        "output_summary": TEXT[: rnd.randrange(40, 80)],
        "output_size_bytes": 512,
        "confidence": 0.92,
        "decision_type": "entity_extraction",
        "reasoning": TEXT[: rnd.randrange(40, 80)],
        "llm_tokens_used": rnd.randrange(2000),
        "llm_cost_usd": 0.00042,
        "was_retried": False,
        "retry_count": 0,
        "fallback_used": False,
        "emitter_id": emitter,
        "emitter_seq": number,
        "hlc": f"{1794794400000000000 + number:016x}",
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


class Sender(threading.Thread):
    """Sends prepared bodies, renumbered, until the time is over."""

    def __init__(self, url: str, seconds: float, batch: int, seed: int) -> None:
        super().__init__()
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port)
        self._seconds = seconds
        self._batch = batch
        self._emitter = f"{seed:08x}{random.SystemRandom().getrandbits(96):024x}"
        rnd = random.Random(seed)
        # Making events costs the generator's CPU, not the collector's: prepare, then renumber.
        self._bodies = [
            [event(rnd, self._emitter, number) for number in range(1, batch + 1)] for _ in range(20)
        ]
        self.acknowledged = 0
        self.refused = 0
        self.latencies: list[float] = []

    def run(self) -> None:
        """Send as fast as answers come."""
        end = time.perf_counter() + self._seconds
        sent = 0
        while time.perf_counter() < end:
            lines = self._bodies[sent % len(self._bodies)]
            first = sent * self._batch
            body = b"\n".join(
                line.replace(b'"emitter_seq":%d,' % n, b'"emitter_seq":%d,' % (first + n)).replace(
                    b'"event_id":"evt_', b'"event_id":"%d_' % (first + n)
                )
                for n, line in enumerate(lines, 1)
            )
            sent += 1
            started = time.perf_counter()
            self._connection.request(
                "POST", "/v1/events", body, {"Content-Type": "application/x-ndjson"}
            )
            response = self._connection.getresponse()
            answer = response.read()
            self.latencies.append(time.perf_counter() - started)
            if response.status == 200:
                self.acknowledged += json.loads(answer)["accepted"]
            else:
                self.refused += 1
                time.sleep(0.05)


def main() -> None:
    """Run the senders and print what became of it."""
    url, seconds, senders, batch = (
        sys.argv[1],
        float(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
    )
    threads = [Sender(url, seconds, batch, seed) for seed in range(senders)]
    size = sum(map(len, threads[0]._bodies[0])) / batch
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies = sorted(each for thread in threads for each in thread.latencies)
    print(
        json.dumps(
            {
                "acknowledged": sum(thread.acknowledged for thread in threads),
                "refused": sum(thread.refused for thread in threads),
                "seconds": time.perf_counter() - started,
                "bytes_per_event": size,
                "p50_ms": latencies[len(latencies) // 2] * 1e3,
                "p99_ms": latencies[len(latencies) * 99 // 100] * 1e3,
            }
        )
    )


if __name__ == "__main__":
    main()
