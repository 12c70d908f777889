"""Compare the cost of a traced agent call with a manual OpenTelemetry span.

    python bench/sdk_overhead.py [--calls 20000] [--runs 3]

Each candidate runs in its own process and sends to a sink in another process, which counts what
arrives. The baseline is a span with the same attributes and JSON input and output, exported in
batches over OTLP/HTTP, without log lines or metrics. Ours is two events, metrics and two log lines,
sent from the spool, once without and once with a tracer provider in the program. CPU is that
of the whole candidate process, threads and final flush included.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

PROMPT = "cita mañana 10am con Dr. Pérez en la clínica del centro"
RESULT = {"contact": "Dr. Pérez", "date": "mañana", "time": "10am", "entities": ["a", "b", "c"]}
CANDIDATES = ("bare", "disabled", "baseline", "tracereel", "with a provider")


def work(prompt: str) -> dict[str, Any]:
    """Do almost nothing, so that only the recording is measured."""
    return {**RESULT, "length": len(prompt)}


class Sink(BaseHTTPRequestHandler):
    """Server for both protocols that keeps the bodies to count them later."""

    protocol_version = "HTTP/1.1"
    bodies: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        """Accept a body."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append((self.path, body))
        answer = b""
        if self.path == "/v1/events":
            answer = json.dumps({"accepted": body.count(b"\n"), "rejected": []}).encode()
        self._answer(answer)

    def do_GET(self) -> None:
        """Return the number of events and spans received."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        events = sum(body.count(b"\n") for path, body in self.bodies if path == "/v1/events")
        spans = sum(
            len(scope.spans)
            for path, body in self.bodies
            if path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
        )
        self.bodies.clear()
        self._answer(json.dumps({"events": events, "spans": spans}).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Disable the access log."""


def bare(_url: str) -> tuple[Callable[[str], Any], Callable[[], None]]:
    """Return the undecorated function."""
    return work, lambda: None


def disabled(_url: str) -> tuple[Callable[[str], Any], Callable[[], None]]:
    """Return the decorated function with recording disabled."""
    import tracereel

    tracereel.configure(enabled=False)
    return tracereel.traced_agent("parsing_agent", version="1.0.0")(work), lambda: None


def baseline(url: str) -> tuple[Callable[[str], Any], Callable[[], None]]:
    """Return a function with a manual span."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "bench"}))
    processor = BatchSpanProcessor(
        OTLPSpanExporter(endpoint=f"{url}/v1/traces"), max_queue_size=100_000
    )
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("bench")

    def call(prompt: str) -> Any:
        with tracer.start_as_current_span("invoke_agent parsing_agent") as span:
            span.set_attribute("gen_ai.operation.name", "invoke_agent")
            span.set_attribute("gen_ai.agent.name", "parsing_agent")
            span.set_attribute("agent.name", "parsing_agent")
            span.set_attribute("gen_ai.agent.version", "1.0.0")
            span.set_attribute("agent.version", "1.0.0")
            span.set_attribute("gen_ai.provider.name", "qwen")
            span.set_attribute("llm.provider", "qwen")
            span.set_attribute("gen_ai.request.model", "qwen-2.5")
            span.set_attribute("llm.model", "qwen-2.5")
            span.set_attribute("tracereel.execution_id", f"exe_{uuid.uuid4().hex}")
            span.set_attribute("tracereel.request_id", f"req_{uuid.uuid4().hex}")
            span.set_attribute("trace_id", f"{span.get_span_context().trace_id:032x}")
            span.set_attribute("input.value", json.dumps({"prompt": prompt}))
            result = work(prompt)
            span.set_attribute("output.value", json.dumps(result))
            return result

    return call, provider.shutdown


def traced_with_provider(url: str) -> tuple[Callable[[str], Any], Callable[[], None]]:
    """Return the decorated function in a program with a tracer provider."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
    return traced(url)


def traced(url: str) -> tuple[Callable[[str], Any], Callable[[], None]]:
    """Return the decorated function with events, metrics, log lines in a file and delivery.

    The program has no tracer provider, so there is no SDK span, only its ids and context. The collector
    derives the span from the closing event.
    """
    import tracereel
    from tracereel.logs import configure_logs

    folder = tempfile.mkdtemp()
    tracereel.configure(endpoint=url, service="bench", spool_dir=folder)
    configure_logs(path=f"{folder}/events.log", console=False)
    decorate = tracereel.traced_agent(
        "parsing_agent", version="1.0.0", llm_provider="qwen", llm_model="qwen-2.5"
    )

    def finish() -> None:
        result = tracereel.shutdown(60)
        if result.spooled or result.dropped:
            raise SystemExit(f"not everything was delivered: {result}")

    return decorate(work), finish


def candidate(name: str, url: str, calls: int) -> None:
    """Run one candidate in this process and print its results."""
    makers = (bare, disabled, baseline, traced, traced_with_provider)
    call, finish = dict(zip(CANDIDATES, makers, strict=True))[name](url)
    for _ in range(200):
        call(PROMPT)
    times = []
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        begun = time.perf_counter_ns()
        call(PROMPT)
        times.append(time.perf_counter_ns() - begun)
    finish()
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    times.sort()
    figures = {
        "p50": times[calls // 2] / 1e3,
        "p99": times[calls * 99 // 100] / 1e3,
        "wall": wall / calls * 1e6,
        "cpu": cpu / calls * 1e6,
    }
    print(json.dumps(figures))


def run(name: str, url: str, calls: int) -> dict[str, float]:
    """Run one candidate in a new process and check that all it sent has arrived."""
    done = subprocess.run(
        [sys.executable, __file__, "--candidate", name, "--url", url, "--calls", str(calls)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    with urllib.request.urlopen(url) as response:
        arrived = json.load(response)
    ours = ("events", 2 * (calls + 200))
    expected = {"baseline": ("spans", calls + 200), "tracereel": ours, "with a provider": ours}
    kind, count = expected.get(name, ("events", 0))
    if arrived[kind] != count:
        raise SystemExit(f"{name}: {arrived} arrived, expected {count} {kind}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Run all candidates alternately and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--candidate", choices=CANDIDATES, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--sink", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.candidate:
        candidate(args.candidate, args.url, args.calls)
        return
    if args.sink:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        sys.stdin.read()
        return
    sink = subprocess.Popen(
        [sys.executable, __file__, "--sink"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert sink.stdout is not None
    assert sink.stdin is not None
    url = sink.stdout.readline().strip()
    print(f"{os.cpu_count()} cores, {args.calls} calls, medians of {args.runs} runs, µs a call")
    print(f"{'':16}{'p50':>10}{'p99':>10}{'wall':>10}{'CPU':>10}")
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CANDIDATES}
    for _ in range(args.runs):
        # Alternate, so that load on the machine affects all candidates alike.
        for name in CANDIDATES:
            runs[name].append(run(name, url, args.calls))
    medians = {}
    for name, figures in runs.items():
        medians[name] = {
            key: statistics.median(each[key] for each in figures) for key in figures[0]
        }
        print(f"{name:16}" + "".join(f"{value:10.1f}" for value in medians[name].values()))
    theirs = medians["baseline"]
    for name in ("tracereel", "with a provider"):
        wall, cpu = medians[name]["wall"] / theirs["wall"], medians[name]["cpu"] / theirs["cpu"]
        print(f"{name} against the baseline: wall {wall:.2f}, CPU {cpu:.2f}")
    sink.stdin.close()
    sink.wait()


if __name__ == "__main__":
    main()
