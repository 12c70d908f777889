"""Records an agent of the corpus, re-executes it, and compares the two."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

import tracereel
from tests.support import replay_agents, replay_clients
from tests.support.replay_agents import AGENTS
from tests.support.replay_clients import CLIENTS
from tests.support.replay_world import world
from tracereel import config as _config
from tracereel._core import recorder as _recorder
from tracereel._core.recorder import Recorder
from tracereel.tape import DivergenceError, Report, Tape
from tracereel.tape import format as tape_format


class KeepingRecorder(Recorder):
    """In-memory event recorder."""

    def __init__(self, config: Any, **wiring: Any) -> None:
        super().__init__(config, **wiring)
        self.events: list[dict[str, Any]] = []

    def _store(self, events: Any, trace: Any, closes_run: bool) -> None:
        self.events += events


@contextmanager
def recording(**settings: Any) -> Iterator[list[dict[str, Any]]]:
    """Record into memory within the block."""
    config = _config.load(
        {}, **{"record": "all", "spool_dir": Path(tempfile.gettempdir()) / "none", **settings}
    )
    recorder = KeepingRecorder(config, registry=CollectorRegistry())
    before, _recorder._active = _recorder._active, recorder
    try:
        yield recorder.events
    finally:
        _recorder._active = before


def record(name: str, seed: int, *, exact: bool = False) -> tuple[Any, Tape]:
    """Result of an agent, and its tape."""
    world.begin(seed)
    models = replay_clients.serving() if name in CLIENTS else nullcontext()
    with models, recording(record_exact=exact) as events:
        output = replay_agents.run(AGENTS[name])
    return output, tape_format.parse(events)


@dataclass(frozen=True)
class Trial:
    """Outcome of a replay: `identical`, `diverged` (reported), or `silent` (different, unreported)."""

    verdict: str
    asked: int
    report: Report | None
    output: Any
    recorded: Any


def replay(name: str, output: Any, tape: Tape, **options: Any) -> Trial:
    """Re-execute an agent strictly and compare its result."""
    world.begin(10**9)
    run = tracereel.replay(tape, stall_seconds=3.0, **options)
    again: Any = None
    try:
        with run:
            again = replay_agents.run(AGENTS[name])
    except DivergenceError:
        return Trial("diverged", world.asked, run.report, again, output)
    if run.report.divergences:
        return Trial("diverged", world.asked, run.report, again, output)
    verdict = "identical" if repr(again) == repr(output) else "silent"
    return Trial(verdict, world.asked, run.report, again, output)
