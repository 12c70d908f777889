"""Load generator: sends batches of records over persistent connections.

    python bench/load.py URL KIND SECONDS SENDERS BATCH [RECORDS_PER_SECOND]

Prints one JSON line: acknowledged records, seconds, responses other than 200, latency percentiles.
Bodies are generated in advance, and only their ids change between requests, so that the generator
uses little CPU.
"""

import http.client
import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

TEXT = "El usuario pide una cita mañana a las 10 con el Dr. Pérez en la clínica del centro. " * 3
PREPARED = 20


def event(rnd: random.Random, emitter: str, number: int) -> bytes:
    """Return an event of about 750 bytes, as the SDK would write it."""
    fields = {
        "event_id": f"{emitter[:24]}_{number}",
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


def event_bodies(seed: int, batch: int) -> Iterator[bytes]:
    """Yield bodies endlessly; every twentieth starts a new emitter with consecutive numbers."""
    rnd = random.Random(seed)
    marker = "#" * 32
    bodies = [
        b"\n".join(event(rnd, marker, first * batch + n) for n in range(1, batch + 1))
        for first in range(PREPARED)
    ]
    system = random.SystemRandom()
    while True:
        emitter = f"{system.getrandbits(128):032x}".encode()
        for body in bodies:
            yield body.replace(b"#" * 32, emitter).replace(b"#" * 24, emitter[:24])


def span_bodies(seed: int, batch: int) -> Iterator[bytes]:
    """Yield OTLP requests endlessly; a span has about 700 bytes and nine attributes."""
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    rnd = random.Random(seed)
    marker = b"\xfe\xfd\xfc\xfb" * 4

    def attribute(key: str, value: "str | int | float") -> KeyValue:
        name = {str: "string_value", int: "int_value", float: "double_value"}[type(value)]
        return KeyValue(key=key, value=AnyValue(**{name: value}))

    bodies = []
    for _ in range(PREPARED):
        request = trace_service_pb2.ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.append(attribute("service.name", "planner"))
        scope = resource.scope_spans.add()
        scope.scope.name = "opentelemetry.instrumentation.openai"
        for number in range(batch):
            scope.spans.add(
                trace_id=marker,
                span_id=rnd.getrandbits(64).to_bytes(8, "big"),
                parent_span_id=rnd.getrandbits(64).to_bytes(8, "big"),
                name="chat gpt-4o-mini",
                kind=3,
                start_time_unix_nano=1794794400000000000 + number * 1000,
                end_time_unix_nano=1794794400000000000 + number * 1000 + rnd.randrange(10**9),
                attributes=[
                    attribute("gen_ai.system", "openai"),
                    attribute("gen_ai.operation.name", "chat"),
                    attribute("gen_ai.request.model", "gpt-4o-mini"),
                    attribute("gen_ai.response.model", "gpt-4o-mini-2024-07-18"),
                    attribute("gen_ai.usage.input_tokens", rnd.randrange(2000)),
                    attribute("gen_ai.usage.output_tokens", rnd.randrange(500)),
                    attribute("gen_ai.request.temperature", 0.2),
                    attribute("gen_ai.prompt.0.content", TEXT[: rnd.randrange(120, 200)]),
                    attribute("server.address", "api.example.com"),
                ],
            )
        bodies.append(request.SerializeToString())
    system = random.SystemRandom()
    while True:
        for body in bodies:
            yield body.replace(marker, system.getrandbits(128).to_bytes(16, "big"))


KINDS = {
    "events": ("/v1/events", "application/x-ndjson", event_bodies),
    "spans": ("/v1/traces", "application/x-protobuf", span_bodies),
}


class Sender(threading.Thread):
    """Sends batches for a time, as fast as possible or at a fixed rate."""

    def __init__(
        self, url: str, kind: str, seconds: float, batch: int, seed: int, pause: float
    ) -> None:
        super().__init__()
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port)
        self._seconds = seconds
        self._batch = batch
        self._pause = pause
        self._path, self._type, make = KINDS[kind]
        self._bodies = make(seed, batch)
        self.size = len(next(self._bodies)) / batch
        self.acknowledged = 0
        self.refused = 0
        self.latencies: list[float] = []

    def run(self) -> None:
        """Send the batches."""
        started = time.perf_counter()
        due = started + random.random() * self._pause
        for body in self._bodies:
            now = time.perf_counter()
            if now > started + self._seconds:
                return
            if self._pause:
                time.sleep(max(0.0, due - now))
                due += self._pause
            began = time.perf_counter()
            self._connection.request("POST", self._path, body, {"Content-Type": self._type})
            response = self._connection.getresponse()
            response.read()
            self.latencies.append(time.perf_counter() - began)
            if response.status == 200:
                self.acknowledged += self._batch
            else:
                self.refused += 1
                time.sleep(0.05)


def main() -> None:
    """Run the senders and print the result."""
    url, kind = sys.argv[1:3]
    seconds, senders, batch = float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
    rate = float(sys.argv[6]) if len(sys.argv) > 6 else 0.0
    pause = senders * batch / rate if rate else 0.0
    threads = [Sender(url, kind, seconds, batch, seed, pause) for seed in range(senders)]
    started = time.perf_counter()
    used = time.process_time()
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
                "cpu_seconds": time.process_time() - used,
                "bytes_each": threads[0].size,
                "p50_ms": latencies[len(latencies) // 2] * 1e3,
                "p99_ms": latencies[len(latencies) * 99 // 100] * 1e3,
            }
        )
    )


if __name__ == "__main__":
    main()
