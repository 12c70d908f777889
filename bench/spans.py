"""Measure the engine's CPU per stored span, for different attributes.

    python bench/spans.py [--spans 20000] [--runs 5]

Inserts that many spans at once in bodies of 100 into a new embedded store; prints the median of the runs.
"""

import argparse
import json
import random
import statistics
import sys
import time
import uuid
from pathlib import Path

import psutil
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.engine_store import store_of_its_own
from tracereel_collector.model import Kind, QueuedBody

HTTP = {
    "http.request.method": "GET",
    "http.response.status_code": 200,
    "http.route": "/v1/appointments/{id}",
    "url.scheme": "https",
    "server.address": "api.example.com",
    "server.port": 443,
    "network.protocol.version": "1.1",
    "user_agent.original": "python-httpx/0.28",
    "client.address": "10.1.2.3",
}
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
    "gen_ai.usage.input_tokens": 287,
    "gen_ai.usage.output_tokens": 64,
    "gen_ai.response.id": "chatcmpl-abc123",
    "gen_ai.conversation.id": "session-1",
    "gen_ai.agent.name": "parsing_agent",
}
MESSAGES = json.dumps(
    [{"role": "user", "parts": [{"type": "text", "content": "book an appointment " * 20}]}]
)
SPANS = {
    "http": HTTP,
    "chat": CHAT,
    "chat with messages": {
        **CHAT,
        "gen_ai.input.messages": MESSAGES,
        "gen_ai.output.messages": MESSAGES,
    },
}


def body(attributes: dict[str, object], rnd: random.Random, spans: int = 100) -> bytes:
    """Return an OTLP request with one trace."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "bench"
    scope = resource.scope_spans.add()
    scope.scope.name = "bench"
    trace = rnd.randbytes(16)
    now = time.time_ns()
    for number in range(spans):
        span = scope.spans.add(trace_id=trace, span_id=rnd.randbytes(8), name="a span", kind=3)
        span.start_time_unix_nano, span.end_time_unix_nano = now + number, now + number + 10**6
        for key, value in attributes.items():
            said = span.attributes.add(key=key).value
            if isinstance(value, int):
                said.int_value = value
            else:
                said.string_value = str(value)
    return request.SerializeToString()


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    rnd = random.Random(7)
    with store_of_its_own(memory=1 << 31) as store:
        store.command("SYSTEM STOP MERGES")
        (child,) = psutil.Process().children()
        for name, attributes in SPANS.items():
            cpu, wall, size = [], [], 0
            for _ in range(args.runs + 1):
                bodies = [
                    QueuedBody(
                        id=number,
                        kind=Kind.SPANS,
                        tenant="default",
                        first_sequence_number=number * 100,
                        records=100,
                        received_unix_nano=time.time_ns(),
                        data=body(attributes, rnd),
                    )
                    for number in range(args.spans // 100)
                ]
                size = sum(len(each.data) for each in bodies) // args.spans
                before, started = child.cpu_times(), time.perf_counter()
                store.insert(Kind.SPANS, bodies, token=uuid.uuid4().hex)
                wall.append((time.perf_counter() - started) / args.spans * 1e6)
                after = child.cpu_times()
                used = after.user + after.system - before.user - before.system
                cpu.append(used / args.spans * 1e6)
            sys.stdout.write(
                f"{name:20} {size:5} bytes  {statistics.median(cpu[1:]):6.1f} µs CPU"
                f"  {statistics.median(wall[1:]):6.1f} µs wall\n"
            )


if __name__ == "__main__":
    main()
