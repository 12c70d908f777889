"""Fleet replay: tapes per second and CPU per run, one-sided and against a baseline; pull.

python bench/fleet.py --runs 500 --calls 20 --processes 2

A twentieth of the runs is changed at two places, and must be found and grouped exactly. With
`--pull` the tapes are also stored in a collector and pulled from it.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402
import psutil  # noqa: E402

from tests.support.collector import CollectorProcess, http  # noqa: E402
from tests.support.contract import example  # noqa: E402
from tests.support.desk import Desk  # noqa: E402
from tracereel.client import Client  # noqa: E402
from tracereel.fleet import file as fleet_file  # noqa: E402
from tracereel.fleet.file import FleetFile  # noqa: E402
from tracereel.fleet.groups import FleetSummary, summarize  # noqa: E402
from tracereel.fleet.pull import PullSelection, pull  # noqa: E402
from tracereel.fleet.runner import FleetSettings, run_all  # noqa: E402
from tracereel.fleet.source import worktree  # noqa: E402
from tracereel.fleet.verdicts import RunVerdict  # noqa: E402

PROGRAM = """
from tracereel import traced_agent, traced_llm, traced_pipeline, traced_tool


@traced_llm("model-a")
def ask(messages):
    return "answer " * 40


@traced_tool("look", effect="read")
def look(number, turn):
    return {"number": number, "turn": turn, "text": "result " * 40}


@traced_agent("clerk")
def clerk(number, text, calls):
    messages = [{"role": "user", "content": text}]
    for turn in range(calls // 2):
        messages.append({"role": "assistant", "content": ask(messages)})
        messages.append({"role": "tool", "content": look(number, turn)["text"]})
    return len(messages)


@traced_pipeline("desk")
def desk(number, text):
    return clerk(number, text, CALLS)
"""
RECORDED = 40
"""Runs that are recorded; the file repeats them."""
KNOWN = ("same", "changed")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--pull", action="store_true", help="Store and pull the tapes as well.")
    parser.add_argument("--one-sided", action="store_true", help="Without a baseline.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        desk = Desk(Path(place, "program")).write(PROGRAM + f"\n\nCALLS = {args.calls}\n")
        path, many = Path(place, "some.fleet"), Path(place, "many.fleet")
        desk.record(path, range(RECORDED))
        repeat(path, many, args.runs)
        commit(desk.folder)
        # One run in twenty changes: half of them in a call, half in the output.
        desk.change('look(number, turn)["text"]', 'look(number, turn + (number == 7))["text"]')
        desk.change(
            "return clerk(number, text, CALLS)",
            "return clerk(number, text, CALLS) + (number == 23)",
        )
        print(
            f"{args.runs} tapes of {args.calls} calls, {many.stat().st_size / 1e6:.1f} MB,"
            f" {args.processes} processes of {os.cpu_count()}"
        )
        measure("one-sided", many, FleetSettings(root=desk.folder, processes=args.processes))
        if not args.one_sided:
            with worktree("HEAD", desk.folder) as baseline:
                settings = FleetSettings(
                    root=desk.folder, baseline=baseline, processes=args.processes
                )
                measure("differential", many, settings)
        if args.pull:
            measure_pull(many, Path(place))


def repeat(source: Path, target: Path, runs: int) -> None:
    """Write the recorded runs again and again under other ids."""
    recorded = list(FleetFile(source).runs())
    with fleet_file.writing(target, {}) as writer:
        for number in range(runs):
            run = recorded[number % len(recorded)]
            writer.add(f"{number:032x}", msgspec.json.decode(run.parts))


def commit(folder: Path) -> None:
    """Make a repository of a folder."""
    person = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    for words in (("init", "-q"), ("add", "."), (*person, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=folder, check=True)


def measure(label: str, path: Path, settings: FleetSettings) -> None:
    """Run a file and print what it took."""
    verdicts = []
    before, began = spent(), time.monotonic()
    run_all(FleetFile(path), settings, verdicts.append)
    seconds, cpu = time.monotonic() - began, spent() - before
    summary = summarize(verdicts)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    counts = ", ".join(f"{count} {kind}" for kind, count in summary.counts.items() if count)
    print(
        f"{label:13} {seconds:7.1f} s {len(verdicts) / seconds:7.1f} runs/s"
        f" {1000 * cpu / len(verdicts):7.1f} ms CPU a run"
        f"  {memory:.0f} MB here, {worker:.0f} MB in the largest worker;"
        f" {counts}; {'as planted' if exact(verdicts, summary) else 'NOT AS PLANTED'}"
    )


def exact(verdicts: list[RunVerdict], summary: FleetSummary) -> bool:
    """Return whether the groups are the planted changes."""
    expected = {
        tuple(sorted(each.trace_id for each in verdicts if int(each.trace_id, 16) % RECORDED == at))
        for at in (7, 23)
    }
    others = {kind: count for kind, count in summary.counts.items() if kind not in KNOWN}
    return {group.runs for group in summary.groups} == expected - {()} and not any(others.values())


def measure_pull(path: Path, place: Path) -> None:
    """Store the tapes in a collector, pull them, and print what it took."""
    collector = CollectorProcess(place / "data").start()
    try:
        store(collector, path)
        server = psutil.Process(collector.process.pid)
        before, began = spent_by(server) + time.process_time(), time.monotonic()
        outcome = pull(Client(collector.url), place / "pulled.fleet", PullSelection())
        seconds = time.monotonic() - began
        cpu = spent_by(server) + time.process_time() - before
    finally:
        collector.stop()
    print(
        f"pull          {seconds:7.1f} s {outcome.written / seconds:7.1f} runs/s"
        f" {1000 * cpu / max(1, outcome.written):7.1f} ms CPU a run, with the collector's;"
        f" {outcome.written} of {outcome.looked_at} runs, {outcome.size / 1e6:.1f} MB"
    )


def spent_by(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and its children."""
    found = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return float(sum(each.user + each.system for each in found))


def store(collector: CollectorProcess, path: Path) -> None:
    """Send each run as the events that its recording would have sent."""
    body: list[bytes] = []
    for number, run in enumerate(FleetFile(path).runs()):
        started = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        about = {"trace_id": run.trace_id, "timestamp": started, "event_version": "1.0.0"}
        event = example("agent.execution.completed") | about | {"event_id": f"evt_{number}"}
        body.append(msgspec.json.encode(event))
        for part in msgspec.json.decode(run.parts, type=list[dict[str, Any]]):
            identity = f"{number}_{part['part']}"
            body.append(
                msgspec.json.encode(
                    {**part, **about, "event_id": f"evt_t{identity}", "tape_id": f"tape_{number}"}
                    | {"emitter_id": f"emitter_{number}"}
                )
            )
        if len(body) >= 400:
            send(collector, body)
            body = []
    send(collector, body)


def send(collector: CollectorProcess, body: list[bytes]) -> None:
    """Send events and wait until they are stored."""
    headers = {"Content-Type": "application/x-ndjson"}
    url = f"{collector.url}/v1/events?wait=stored"
    answer = http("POST", url, b"\n".join(body), headers, timeout=120)
    if answer.status != HTTPStatus.OK:
        raise SystemExit(f"the collector answered {answer.status}: {answer.body[:300]!r}")


def spent() -> float:
    """Return the CPU seconds of this process and its ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
