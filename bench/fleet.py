"""Fleet replay: tapes per second and CPU per run, one-sided and against a baseline.

python bench/fleet.py --runs 500 --calls 20 --processes 2
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402

from tests.support.desk import Desk  # noqa: E402
from tracereel.fleet import file as fleet_file  # noqa: E402
from tracereel.fleet.file import FleetFile  # noqa: E402
from tracereel.fleet.groups import summarize  # noqa: E402
from tracereel.fleet.runner import FleetSettings, run_all  # noqa: E402
from tracereel.fleet.source import worktree  # noqa: E402

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
RECORDED = 20
"""Runs that are recorded; the file repeats them."""


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        desk = Desk(Path(place, "program")).write(PROGRAM + f"\n\nCALLS = {args.calls}\n")
        path, many = Path(place, "some.fleet"), Path(place, "many.fleet")
        desk.record(path, range(RECORDED))
        repeat(path, many, args.runs)
        commit(desk.folder)
        # One run in twenty changes.
        desk.change('look(number, turn)["text"]', 'look(number, turn + (number == 7))["text"]')
        print(
            f"{args.runs} tapes of {args.calls} calls, {many.stat().st_size / 1e6:.1f} MB,"
            f" {args.processes} processes of {os.cpu_count()}"
        )
        measure("one-sided", many, FleetSettings(root=desk.folder, processes=args.processes))
        with worktree("HEAD", desk.folder) as baseline:
            settings = FleetSettings(root=desk.folder, baseline=baseline, processes=args.processes)
            measure("differential", many, settings)


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
        f" {counts}; {len(summary.groups)} groups"
    )


def spent() -> float:
    """Return the CPU seconds of this process and its ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
