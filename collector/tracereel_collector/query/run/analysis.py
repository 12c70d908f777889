"""Analysis of a run; each part is calculated once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracereel_collector.query.run.chains import Chain, chains_of
from tracereel_collector.query.run.errors import StepFailure, first_failure, last_failure
from tracereel_collector.query.run.path import Segment, critical_path
from tracereel_collector.query.run.rows import RunReader, RunRows
from tracereel_collector.query.run.tree import RunTree, build, is_open, settle
from tracereel_collector.query.run.usage import StepUsage, add, total_usage
from tracereel_collector.query.run.waste import Waste, waste_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Run with all derived data."""

    run: RunTree
    totals: Mapping[int, StepUsage]
    """Usage of each step including descendants, by `id(step)`."""
    prices: Mapping[str, float]
    usage: StepUsage
    """Usage of the whole run."""
    chains: Sequence[Chain]
    waste: Waste
    path: Sequence[Segment]
    first_error: StepFailure | None
    last_error: StepFailure | None

    @property
    def state(self) -> str:
        """State of the run."""
        run = self.run
        if any(step.status == "running" for step in run.steps):
            return "running"
        main = run.main
        if main is not None:
            return "failed" if main.status == "retried" else main.status
        return "unknown"


def analyse(run: RunTree, prices: Mapping[str, float]) -> Analysis:
    """Analyse a run."""
    totals = total_usage(run.steps, prices)
    chains = chains_of(run)
    return Analysis(
        run=run,
        totals=totals,
        prices=prices,
        usage=add(totals[id(step)] for step in run.roots),
        chains=chains,
        waste=waste_of(run, chains, totals),
        path=critical_path(run),
        first_error=first_failure(run),
        last_error=last_failure(run),
    )


def settled(reader: RunReader, tenant: str, rows: RunRows, *, now_unix_nano: int) -> RunTree:
    """Build the run and set the status of steps without an end."""
    run = build(rows)
    waiting = {step.clock for step in run.steps if is_open(step)}
    if waiting:
        emitters = reader.emitters(tenant, waiting, now_unix_milli=now_unix_nano // 1_000_000)
        settle(run, emitters, now_unix_nano=now_unix_nano)
    return run
