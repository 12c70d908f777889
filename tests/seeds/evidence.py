"""Evidence for the rows: programs that ran, what they recorded, and one collector."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from tests.seeds.programs import declared
from tests.support.collector import Answer, CollectorProcess, free_port, http
from tests.support.contract import EXAMPLES
from tests.support.waiting import wait_until
from tracereel import set_tokens_remaining
from tracereel.client import AgentExecutionReplay, Client
from tracereel.testing import EventRecorder

PROGRAMS = Path(__file__).parent / "programs"
KEYS = {name: f"a-key-of-the-seed-tests-{name}" for name in ("own", "other")}


@dataclass(frozen=True)
class Recording:
    """What one program recorded in this process."""

    events: list[dict]
    spans: tuple[ReadableSpan, ...]
    registry: CollectorRegistry

    def of(self, event_type: str) -> list[dict]:
        return [event for event in self.events if event["event_type"] == event_type]


class Evidence:
    """Programs, recordings and a collector; each is made when a row first asks for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._done: dict[str, subprocess.CompletedProcess] = {}

    def close(self) -> None:
        """Stop the collector."""
        if "collector" in vars(self):
            self.collector.stop()

    # Programs in this process.

    @cached_property
    def declared(self) -> Recording:
        """Return what the program that declares everything records."""
        exporter, registry = InMemorySpanExporter(), CollectorRegistry()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with EventRecorder(registry=registry, tracer_provider=provider) as recorder:
            declared.main(provider)
            set_tokens_remaining("qwen", 1000, registry=registry)
        return Recording(recorder.events, exporter.get_finished_spans(), registry)

    # Programs in processes of their own.

    def run(self, name: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess:
        """Run a program once and return how it ended."""
        key = " ".join([name, *arguments])
        if key not in self._done:
            spool = self.folder / "spools" / str(len(self._done))
            self._done[key] = subprocess.run(
                [sys.executable, str(PROGRAMS / name), *arguments],
                env={
                    **os.environ,
                    "TRACEREEL_SPOOL_DIR": str(spool),
                    "TRACEREEL_RAISE_INTERNAL_ERRORS": "1",
                    **environ,
                },
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        done = self._done[key]
        assert done.returncode == 0, done.stderr
        return done

    def run_with_collector(
        self, name: str, *arguments: str, **environ: str
    ) -> subprocess.CompletedProcess:
        """Run a program whose events go to the collector."""
        return self.run(name, *arguments, **self.destination, **environ)

    @cached_property
    def plain(self) -> Recording:
        """Return what the program that declares nothing records; it is an installed package."""
        site = self.folder / "site"
        metadata = site / "clinic-2.3.4.dist-info"
        metadata.mkdir(parents=True)
        (site / "clinic").mkdir()
        shutil.copy(PROGRAMS / "plain.py", site / "clinic" / "__init__.py")
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: clinic\nVersion: 2.3.4\n")
        (metadata / "top_level.txt").write_text("clinic\n")
        (metadata / "RECORD").write_text("clinic/__init__.py,,\n")
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-c", "import clinic; clinic.main()"],
            env={**os.environ, "PYTHONPATH": path, "TZ": "America/Mexico_City"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return Recording(events, (), CollectorRegistry())

    # The collector.

    @cached_property
    def collector(self) -> CollectorProcess:
        """Return a running collector with two tenants."""
        keys = ",".join(f"{tenant}:{key}" for tenant, key in KEYS.items())
        environ = {"TRACEREEL_API_KEYS": keys, "TRACEREEL_SESSION_OWNERS": "refuse"}
        # The same port after a restart.
        return CollectorProcess(
            self.folder / "collector", environ=environ, port=free_port(), fresh=True
        ).start()

    @property
    def destination(self) -> dict[str, str]:
        """Environment of a program that sends to the collector."""
        return {"TRACEREEL_ENDPOINT": self.collector.url, "TRACEREEL_API_KEY": KEYS["own"]}

    @property
    def headers(self) -> dict[str, str]:
        return {"x-api-key": KEYS["own"]}

    @cached_property
    def client(self) -> Client:
        return Client(self.collector.url, KEYS["own"])

    def get(self, path: str) -> Answer:
        """Return the collector's answer to a GET."""
        return http("GET", f"{self.collector.url}{path}", headers=self.headers)

    def store(self, events: list[dict]) -> dict:
        """Send events and return the collector's answer, once they are stored."""
        answer = self.collector.post_events(events, headers=self.headers)
        assert answer.status == 200, answer.body
        return answer.json()

    def _send(self, recording: Recording, emitter_id: str) -> None:
        """Store a recording; recorders of tests share one emitter, senders must not."""
        self.store([{**event, "emitter_id": emitter_id} for event in recording.events])

    def settle(self) -> None:
        """Wait until everything that was acknowledged is stored."""
        wait_until(lambda: self.collector.metric("tracereel_records_pending") == 0)

    def replay(self, trace_id: str) -> dict:
        """Return the replay of a trace, with everything that was acknowledged."""
        self.settle()
        return AgentExecutionReplay(self.collector.url, KEYS["own"]).replay_sync(trace_id)

    @cached_property
    def examples(self) -> dict[str, tuple[dict, dict]]:
        """Return the printed examples by type: as they are exported, and as they are replayed."""
        assert self.store(EXAMPLES)["rejected"] == []
        found = {}
        for trace_id in {event["trace_id"] for event in EXAMPLES}:
            replayed = {e["event"]: e["details"] for e in self.replay(trace_id)["timeline"]}
            exported = self.get(f"/v1/export?trace_id={trace_id}").body
            for event in map(json.loads, exported.splitlines()):
                kind = event["event_type"]
                found[kind] = event, replayed[kind]
        return found

    @cached_property
    def stored_plain(self) -> dict:
        """Return the replay of the program that declares nothing."""
        self._send(self.plain, "emt_plain")
        return self.replay(self.plain.events[0]["trace_id"])

    @cached_property
    def stored_declared(self) -> dict:
        """Return the replay of the program that declares everything."""
        self._send(self.declared, "emt_declared")
        return self.replay(declared.TRACE_ID)
