"""Measure the bytes of conversations: sent, in the spool, on the wire and on disk.

    python bench/content.py [--turns 20,50,200] [--chars 1000] [--batch 20] [--forms run,session,…]
    python bench/content.py --demo-events 1000000

Every call of a conversation sends its whole history. `run`: all calls in one run; `session`: a run for
each call. The other forms are spans of a dialect: an agent and its model call, in a trace for each turn,
of several conversations at once that name their session. `last` is the size of the last request, `sent`
that of all. `disk` is what the tables of the store take (active parts of all tables, indexes included),
before and after their parts are merged. `gzip` and `zstd` are the requests as the SDK compresses them for
other machines. The goal is at most 1.3 times the last request plus 1.5 KB an event (`goal`). The second
form stores so many events of the demo, each run copied under new ids, and prints bytes an event by table.
"""

import argparse
import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable
from itertools import accumulate, count
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import tracereel
from tracereel.demo.run import run_demo

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.engine_store import store_of_its_own
from tests.support.ingest_sink import IngestSink
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.tables import stored_bytes, stored_tables

WORDS = 20_000
"""Size of the vocabulary; the n-th word is 1/n as frequent as the first, as in natural language."""


def texts(chars: int, seed: int = 7) -> Any:
    """Return a function that makes texts of about this length."""
    source = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(source.choices(letters, k=source.randint(2, 10))) for _ in range(WORDS)]
    shares = list(accumulate(1 / number for number in range(1, WORDS + 1)))
    return lambda: " ".join(source.choices(words, cum_weights=shares, k=chars // 7))


@tracereel.traced_llm("model", provider="bench")
def ask(messages: list[dict[str, str]]) -> str:  # noqa: ARG001 - recorded
    """Take the next answer from the script."""
    return SCRIPT.pop(0)


@tracereel.traced_agent("assistant")
def turn(messages: list[dict[str, str]], session_id: str) -> int:  # noqa: ARG001 - recorded
    """Ask the model once."""
    said = ask(messages)
    messages.append({"role": "assistant", "content": said})
    return len(said)


@tracereel.traced_agent("assistant")
def conversation(talk: list[str], session_id: str) -> int:
    """Ask the model about every text, as an agent loop does."""
    return len(
        talk_through(
            talk,
            session_id,
            lambda messages, _: messages.append({"role": "assistant", "content": ask(messages)}),
        )
    )


CONVERSATIONS = 5
"""Conversations of spans at the same time: their traces lie among each other. A row is the mean."""
SCRIPT: list[str] = []
RECEIVED = time.time_ns()


def talk_through(talk: list[str], session_id: str, step: Any) -> list[dict[str, str]]:
    """Run one conversation and return its messages."""
    messages = [{"role": "system", "content": talk[0]}]
    for said in talk[1:]:
        messages.append({"role": "user", "content": said})
        step(messages, session_id)
    return messages


def program(url: str, form: str, turns: int, chars: int) -> None:
    """Have one conversation and print the size of its requests as JSON."""
    made = texts(chars)
    SCRIPT.extend(made() for _ in range(turns))
    talk = [made() for _ in range(turns + 1)]
    sizes: list[int] = []
    tracereel.configure(endpoint=url, max_spool_bytes=1 << 30)
    session = f"bench-{uuid.uuid4().hex}"
    history: list[dict[str, str]] = [{"role": "system", "content": talk[0]}]
    for asked, answered in zip(talk[1:], SCRIPT, strict=True):
        history.append({"role": "user", "content": asked})
        sizes.append(len(json.dumps(history).encode()))
        history.append({"role": "assistant", "content": answered})
    if form == "run":
        conversation(talk, session)
    else:
        talk_through(talk, session, turn)
    tracereel.flush(60.0)
    print(json.dumps({"last": sizes[-1], "sent": sum(sizes)}))


def numbered(prefix: str, within: str, messages: list[dict[str, str]]) -> dict[str, str]:
    """Return messages as attributes, one for each field."""
    return {
        f"{prefix}.{number}{within}.{name}": value
        for number, each in enumerate(messages)
        for name, value in each.items()
    }


def openinference(messages: list[dict[str, str]], answer: list[dict[str, str]]) -> dict[str, str]:
    """Return the attributes of a call in the words of OpenInference."""
    return {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps({"messages": messages}),
        "output.value": json.dumps(answer[0]),
        **numbered("llm.input_messages", ".message", messages),
        **numbered("llm.output_messages", ".message", answer),
    }


def openllmetry(messages: list[dict[str, str]], answer: list[dict[str, str]]) -> dict[str, str]:
    """Return the attributes of a call in the words of OpenLLMetry."""
    return {
        "llm.request.type": "chat",
        **numbered("gen_ai.prompt", "", messages),
        **numbered("gen_ai.completion", "", answer),
    }


def parts(messages: list[dict[str, str]]) -> str:
    """Return messages in OpenTelemetry's schema."""
    return json.dumps(
        [
            {"role": each["role"], "parts": [{"type": "text", "content": each["content"]}]}
            for each in messages
        ]
    )


DIALECTS: dict[str, tuple[str, str, Any, dict[str, str]]] = {
    "gen_ai": (
        "gen_ai.conversation.id",
        "gen_ai.input.messages",
        lambda messages, answer: {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": parts(messages),
            "gen_ai.output.messages": parts(answer),
        },
        {"gen_ai.operation.name": "invoke_agent"},
    ),
    "openinference": (
        "session.id",
        "input.value",
        openinference,
        {"openinference.span.kind": "AGENT"},
    ),
    "openllmetry": (
        "traceloop.association.properties.session_id",
        "traceloop.entity.input",
        openllmetry,
        {"traceloop.span.kind": "agent"},
    ),
}
"""Names of the session and of an agent's input; attributes of a model call; those that mark an agent."""


def spans(dialect: str, turns: int, chars: int, seed: int) -> tuple[dict[str, int], list[bytes]]:
    """Return the size of the requests of a conversation, and the OTLP request of each turn."""
    session_name, input_name, attributes, agent_mark = DIALECTS[dialect]
    made, source, session = texts(chars, seed), random.Random(seed), f"bench-{uuid.uuid4().hex}"
    messages = [{"role": "system", "content": made()}]
    sizes, requests, now = [], [], RECEIVED
    for _ in range(turns):
        messages.append({"role": "user", "content": made()})
        answer = [{"role": "assistant", "content": made()}]
        sizes.append(len(json.dumps(messages).encode()))
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = "bench"
        scope = resource.scope_spans.add()
        trace, agent, call = source.randbytes(16), source.randbytes(8), source.randbytes(8)
        for span_id, parent, name, values in (
            (agent, b"", "assistant", {**agent_mark, input_name: json.dumps(messages)}),
            (call, agent, "chat m", attributes(messages, answer)),
        ):
            now += 1_000_000
            span = scope.spans.add(
                trace_id=trace, span_id=span_id, parent_span_id=parent, name=name
            )
            span.start_time_unix_nano, span.end_time_unix_nano = now, now + 900_000
            for key, value in {session_name: session, **values}.items():
                span.attributes.add(key=key).value.string_value = value
        requests.append(request.SerializeToString())
        messages.extend(answer)
    return {"last": sizes[-1], "sent": sum(sizes)}, requests


def insert(
    store: ClickHouseStore, lines: list[bytes], first: int, kind: Kind = Kind.EVENTS
) -> None:
    """Store events, or requests of two spans each, as one batch."""
    bodies = [b"\n".join(lines)] if kind is Kind.EVENTS else lines
    queued = [
        QueuedBody(
            id=first + number,
            kind=kind,
            tenant="default",
            first_sequence_number=first + 2 * number,
            records=len(lines) if kind is Kind.EVENTS else 2,
            received_unix_nano=RECEIVED + first,
            data=body,
        )
        for number, body in enumerate(bodies)
    ]
    store.insert(kind, queued, token=uuid.uuid4().hex)


def disk(lines: list[bytes], batch: int, kind: Kind = Kind.EVENTS) -> tuple[int, int]:
    """Return the bytes that lines take in a store of their own, before and after parts are merged."""
    with store_of_its_own() as store:
        for first in range(0, len(lines), batch):
            insert(store, lines[first : first + batch], 2 * first + 1, kind)
        fresh = stored_bytes(store)
        for table in stored_tables(store):
            store.command(f"OPTIMIZE TABLE `{table.name}` FINAL")
        return fresh, stored_bytes(store)


def compressed(bodies: Iterable[bytes]) -> dict[str, int]:
    """Return the size of bodies as each compression makes them."""
    pairs = [
        (len(gzip.compress(body, 1)), len(zstandard.ZstdCompressor(level=3).compress(body)))
        for body in bodies
    ]
    return dict(zip(("gzip", "zstd"), map(sum, zip(*pairs, strict=True)), strict=True))


def measured_spans(dialect: str, turns: int, chars: int, batch: int) -> dict[str, float]:
    """Return the row of one of several conversations in spans."""
    talks = [spans(dialect, turns, chars, seed) for seed in range(CONVERSATIONS)]
    found = talks[0][0]
    requests = [each for turn in zip(*(talk[1] for talk in talks), strict=True) for each in turn]
    groups = [requests[first : first + batch] for first in range(0, len(requests), batch)]
    wire = {name: size // CONVERSATIONS for name, size in compressed(map(b"".join, groups)).items()}
    fresh, merged = (each // CONVERSATIONS for each in disk(requests, batch, Kind.SPANS))
    goal = 1.3 * found["last"] + 1_500 * 2 * turns
    row = {"turns": turns, "events": 2 * turns, **found, "spool": 0, **wire}
    return {
        **row,
        "disk": fresh,
        "merged": merged,
        "goal": goal,
        "merged/last": merged / found["last"],
    }


def measured(form: str, turns: int, chars: int, batch: int) -> dict[str, float]:
    """Return the row of one conversation."""
    with tempfile.TemporaryDirectory() as folder, IngestSink() as sink:
        words = [sys.executable, __file__, "--program", sink.url, "--form", form]
        words += ["--turns", str(turns), "--chars", str(chars)]
        env = {**os.environ, "TRACEREEL_SPOOL_DIR": folder, "TRACEREEL_EVENT_LOGS": "off"}
        env["TRACEREEL_COMPRESSION"] = "none"
        found = json.loads(subprocess.run(words, check=True, capture_output=True, env=env).stdout)
        bodies = [each.lines for each in sink.requests if each.path.startswith("/v1/events")]
    lines = [line for body in bodies for line in body]
    wire = compressed(map(b"\n".join, bodies))
    fresh, merged = disk(lines, batch)
    goal = 1.3 * found["last"] + 1_500 * len(lines)
    spool = sum(len(line) + 1 for line in lines)
    row = {"turns": turns, "events": len(lines), **found, "spool": spool, **wire}
    return {
        **row,
        "disk": fresh,
        "merged": merged,
        "goal": goal,
        "merged/last": merged / found["last"],
    }


def demo_program(url: str, runs: int) -> None:
    """Run the demo without pauses."""
    tracereel.configure(endpoint=url, event_logs="off")
    for _ in run_demo(runs=runs, interval=0, seed=7, sleep=lambda _: None, pace=0):
        pass
    tracereel.flush(60.0)


def copied(events: list[dict[str, Any]], number: int) -> list[bytes]:
    """Return events as lines, with ids that no other copy has."""

    def renewed(name: str, value: Any) -> Any:
        if value is None or not (name.endswith("_id") or name == "event_id") or name == "user_id":
            return value
        if not isinstance(value, str) or not value:
            return value
        length = min(len(value), 32)
        return value[:-length] + hashlib.sha256(f"{number}{value}".encode()).hexdigest()[:length]

    return [
        msgspec.json.encode({name: renewed(name, value) for name, value in each.items()})
        for each in events
    ]


def demo_bytes(most: int, runs: int = 200) -> None:
    """Store events of the demo and print what they take."""
    with tempfile.TemporaryDirectory() as folder, IngestSink() as sink:
        words = [sys.executable, __file__, "--program", sink.url, "--form", "demo"]
        env = {**os.environ, "TRACEREEL_SPOOL_DIR": folder}
        subprocess.run([*words, "--turns", str(runs)], check=True, capture_output=True, env=env)
        events = [each for each in sink.events if each["event_type"] != "agent.tape.recorded"]
    with store_of_its_own() as store:
        stored = 0
        for number in count():
            if stored >= most:
                break
            lines = copied(events, number)
            for first in range(0, len(lines), 5_000):
                part = lines[first : first + 5_000]
                insert(store, part, stored + 1)
                stored += len(part)
        for table in stored_tables(store):
            store.command(f"OPTIMIZE TABLE `{table.name}` FINAL")
        rows = store.rows(
            "SELECT table, sum(bytes_on_disk) FROM system.parts"
            " WHERE database = currentDatabase() AND active GROUP BY table ORDER BY 2 DESC"
        )
    for name, size in rows:
        if int(size) >= stored:
            print(f"{name:20} {int(size) / stored:10,.1f} bytes an event")
    total = sum(int(size) for _, size in rows)
    print(f"{'all tables':20} {total / stored:10,.1f} bytes an event, {stored:,} events")


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", default="20,50,200")
    parser.add_argument("--chars", type=int, default=1_000, help="characters of a message")
    parser.add_argument("--batch", type=int, default=20, help="events that are stored together")
    parser.add_argument("--forms", default=",".join(("run", "session", *DIALECTS)))
    parser.add_argument("--program", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--form", default="run", help=argparse.SUPPRESS)
    parser.add_argument(
        "--demo-events", type=int, default=0, help="store so many events of the demo"
    )
    args = parser.parse_args()
    if args.demo_events:
        demo_bytes(args.demo_events)
        return
    if args.program and args.form == "demo":
        demo_program(args.program, int(args.turns))
        return
    if args.program:
        program(args.program, args.form, int(args.turns), args.chars)
        return
    for form in args.forms.split(","):
        measure = measured_spans if form in DIALECTS else measured
        rows = [
            measure(form, int(turns), args.chars, args.batch) for turns in args.turns.split(",")
        ]
        print(f"{form:14}" + " ".join(f"{name:>12}" for name in rows[0]))
        for row in rows:
            print(
                " " * 14
                + " ".join(
                    f"{value:12,.2f}"
                    if isinstance(value, float) and value < 100
                    else f"{value:12,.0f}"
                    for value in row.values()
                )
            )


if __name__ == "__main__":
    main()
