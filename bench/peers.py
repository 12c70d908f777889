"""Compare the cost of a traced call with other SDKs, each in its own environment.

    python bench/peers.py [--calls 300] [--rounds 3] [--only tracereel,logfire]

Prints two tables: an instrumented call of the OpenAI client, and a decorated agent function. Each
candidate runs in its own process and environment (`.venvs/peers/NAME`, created with pip on the first
run). It sends to a local server that imitates OpenAI and counts what arrives. The value is the CPU time
of the whole process per call, delivery included, minus that of the bare call in the same process; the
median of all rounds. `lost` counts calls whose span or event never arrived.
"""

import argparse
import gc
import gzip
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".venvs" / "peers"
OTLP = "opentelemetry-exporter-otlp-proto-http"
CLIENTS = {
    "tracereel": [],
    "openinference": ["openai", "openinference-instrumentation-openai", OTLP],
    "openllmetry": ["openai", "opentelemetry-instrumentation-openai", OTLP],
    "logfire": ["openai", "logfire", OTLP, "opentelemetry-instrumentation-httpx"],
}
AGENTS = {
    "tracereel": [],
    "langfuse": ["langfuse", OTLP],
    "logfire": CLIENTS["logfire"],
    "laminar": ["lmnr"],
}
MESSAGES = [{"role": "user", "content": "What is the weather like in Lima?"}]
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "bench",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Sunny, 20 degrees."},
        }
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17},
}
Call = Callable[[], Any]
Finish = Callable[[], None]


class Sink(BaseHTTPRequestHandler):
    """Server that imitates OpenAI's API and counts spans and events by sender."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    arrived: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        """Return the counts."""
        self._answer(json.dumps(self.arrived).encode())

    def do_POST(self) -> None:
        """Handle a request of a candidate."""
        sender, _, path = self.path.lstrip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if path.endswith("chat/completions"):
            self._answer(json.dumps(ANSWER).encode())
        elif path.endswith("/events"):
            lines = [json.loads(line) for line in body.splitlines() if line]
            ends = [line for line in lines if line["event_type"] in _ENDS]
            self.arrived[sender] += len(ends)
            accepted = {"accepted": len(lines), "first_sequence_number": 1, "rejected": []}
            self._answer(json.dumps(accepted).encode())
        elif path.endswith("traces"):
            self.arrived[sender] += _spans(body)
            self._answer(b"", "application/x-protobuf")
        else:
            self._answer(b"{}")

    def log_message(self, *_: object) -> None:
        """Disable the access log."""

    def _answer(self, body: bytes, content_type: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


_ENDS = ("agent.llm.called", "agent.execution.completed")


def _spans(body: bytes) -> int:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest.FromString(body)
    spans = [
        span
        for each in request.resource_spans
        for scope in each.scope_spans
        for span in scope.spans
    ]
    # Logfire also sends a pending span at the start of a call; HTTP client spans are not counted.
    return sum(
        (
            not any(item.value.string_value == "pending_span" for item in span.attributes)
            and span.kind != 3
        )
        or any(item.key.startswith("gen_ai") for item in span.attributes)
        for span in spans
    )


def openai_client(url: str) -> Any:
    """Return an OpenAI client that uses the local server."""
    import openai

    return openai.OpenAI(api_key="k", base_url=f"{url}/v1")


def asking(client: Any) -> Call:
    """Return a function that calls a model."""
    return lambda: client.chat.completions.create(model="bench", messages=MESSAGES)


def work(question: str = "What is the weather like in Lima?") -> dict[str, str]:
    """Simulate the work of an agent."""
    return {"answer": "sunny", "question": question}


def otlp_provider(url: str) -> Any:
    """Create a tracer provider with batch export."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=1 << 16))
    trace.set_tracer_provider(provider)
    return provider


def client_tracereel(url: str) -> tuple[Call, Finish]:
    """Wrap the client with tracereel."""
    import tracereel
    from tracereel.integrations.openai import wrap

    tracereel.configure(endpoint=url)
    return asking(wrap(openai_client(url))), lambda: _drained(tracereel)


def client_openinference(url: str) -> tuple[Call, Finish]:
    """Instrument the client with OpenInference."""
    from openinference.instrumentation.openai import OpenAIInstrumentor

    provider = otlp_provider(url)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    return asking(openai_client(url)), provider.shutdown


def client_openllmetry(url: str) -> tuple[Call, Finish]:
    """Instrument the client with OpenLLMetry."""
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    provider = otlp_provider(url)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    return asking(openai_client(url)), provider.shutdown


def client_logfire(url: str) -> tuple[Call, Finish]:
    """Instrument the client with Logfire."""
    logfire = _logfire(url)
    client = openai_client(url)
    logfire.instrument_openai(client)
    return asking(client), logfire.shutdown


def agent_tracereel(url: str) -> tuple[Call, Finish]:
    """Decorate the agent with tracereel."""
    import tracereel

    tracereel.configure(endpoint=url)
    return tracereel.traced_agent("agent")(work), lambda: _drained(tracereel)


def agent_langfuse(url: str) -> tuple[Call, Finish]:
    """Decorate the agent with Langfuse."""
    from langfuse import Langfuse, observe
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces")
    client = Langfuse(public_key="k", secret_key="k", span_exporter=exporter)
    return observe(as_type="agent")(work), client.shutdown


def agent_logfire(url: str) -> tuple[Call, Finish]:
    """Decorate the agent with Logfire."""
    logfire = _logfire(url)
    return logfire.instrument("agent", record_return=True)(work), logfire.shutdown


def agent_laminar(url: str) -> tuple[Call, Finish]:
    """Decorate the agent with Laminar."""
    from lmnr import Laminar, observe

    base, _, port = url.rpartition(":")
    port, _, _ = port.partition("/")
    Laminar.initialize(
        project_api_key="k", base_url=base, http_port=int(port), force_http=True, instruments=set()
    )
    return observe()(work), Laminar.shutdown


def _logfire(url: str) -> Any:
    import logfire

    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = url
    os.environ["OTEL_METRICS_EXPORTER"] = os.environ["OTEL_LOGS_EXPORTER"] = "none"
    logfire.configure(send_to_logfire=False, console=False, metrics=False)
    return logfire


def _drained(tracereel: Any) -> None:
    left = tracereel.flush(60.0)
    assert left.spooled == left.dropped == 0, left


def candidate(kind: str, name: str, url: str, calls: int) -> dict[str, float]:
    """Measure one candidate in this process: bare calls, then traced ones with delivery."""
    bare = asking(openai_client(url)) if kind == "client" else work
    for _ in range(20):
        bare()
    bare_cpu = _cpu_of(bare, calls, lambda: None)
    call, finish = globals()[f"{kind}_{name}"](url)
    for _ in range(20):
        call()
    traced_cpu = _cpu_of(call, calls, finish)
    return {"cpu_us": traced_cpu - bare_cpu}


def _cpu_of(call: Call, calls: int, finish: Finish) -> float:
    # What the imports left behind is collected here, or by chance in the middle of some candidate's calls,
    # where one full collection is 40 µs for each of 1,000 calls.
    gc.collect()
    began = time.process_time_ns()
    for _ in range(calls):
        call()
    finish()
    return (time.process_time_ns() - began) / calls / 1000


def python_of(name: str, packages: list[str]) -> str:
    """Return the interpreter of a candidate; create its environment on the first run."""
    if not packages:
        return sys.executable
    place = ENVIRONMENTS / name
    python = place / "bin" / "python"
    wanted = "\n".join(packages)
    done = place / "installed"
    if not done.is_file() or done.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        done.write_text(wanted)
    return str(python)


def measure(kind: str, name: str, packages: list[str], base: str, calls: int) -> tuple[float, int]:
    """Run one candidate; return its CPU time in microseconds per call and the lost calls."""
    sender = f"{kind}-{name}-{time.time_ns()}"
    command = [python_of(name, packages), __file__, "--candidate", kind, name]
    environ = {
        **os.environ,
        "TRACEREEL_SPOOL_DIR": str(ENVIRONMENTS / "spool" / sender),
        "PYTHONPATH": "",
    }
    # Laminar sends to the root of a host; the others support a path prefix.
    url = base if name == "laminar" else f"{base}/{sender}"
    before = _arrived(base)["v1"] if name == "laminar" else 0
    done = subprocess.run(
        [*command, url, "--calls", str(calls)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{kind} {name} failed:\n{done.stderr[-2000:]}")
    found = _arrived(base)
    arrived = found["v1"] - before if name == "laminar" else found[sender]
    result = json.loads(done.stdout.splitlines()[-1])
    return result["cpu_us"], max(0, calls + 20 - arrived)


def _arrived(base: str) -> Counter[str]:
    with urlopen(Request(f"{base}/counts"), timeout=10) as response:
        return Counter(json.load(response))


def table(kind: str, peers: dict[str, list[str]], base: str, args: argparse.Namespace) -> None:
    """Run the candidates of a kind alternately and print the medians."""
    figures: dict[str, list[float]] = {}
    lost: Counter[str] = Counter()
    names = [name for name in peers if not args.only or name in args.only.split(",")]
    for _ in range(args.rounds):
        for name in names:
            cpu, missing = measure(kind, name, peers[name], base, args.calls)
            figures.setdefault(name, []).append(cpu)
            lost[name] += missing
    print(f"\n{kind}: CPU a call, delivery included, above the bare call")
    print(f"{'':16}{'µs':>8}{'lowest':>9}{'highest':>9}{'lost':>7}{'of ours':>9}")
    ours = statistics.median(figures.get("tracereel", [float("nan")]))
    for name in sorted(names, key=lambda each: statistics.median(figures[each])):
        found = figures[name]
        middle = statistics.median(found)
        row = f"{name:16}{middle:8.0f}{min(found):9.0f}{max(found):9.0f}{lost[name]:7}"
        print(f"{row}{middle / ours:9.2f}")


def main() -> None:
    """Run the benchmark, or one of its candidates."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--candidate", nargs=3, metavar=("KIND", "NAME", "URL"))
    args = parser.parse_args()
    if args.candidate:
        kind, name, url = args.candidate
        print(json.dumps(candidate(kind, name, url, args.calls)))
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    table("client", CLIENTS, base, args)
    table("agent", AGENTS, base, args)
    server.shutdown()


if __name__ == "__main__":
    main()
