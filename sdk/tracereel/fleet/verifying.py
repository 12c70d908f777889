"""Check of a change against failing runs, which it should fix, and good ones, which it should keep.

The answer is data within a byte budget: counts first, then causes, then reports of examples as far
as they fit; what is cut is counted.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import msgspec

from tracereel.fleet.file import FleetFile, FleetRun
from tracereel.fleet.groups import FAILING, CauseGroup, FleetSummary, by_cause, counted, summarize
from tracereel.fleet.runner import FleetSettings, run_all
from tracereel.fleet.verdicts import RunVerdict
from tracereel.tape.text import printable

Repair = Literal["fixed", "still_failing", "changed", "unknown"]
"""Outcome of a failing run.

`fixed`: it raised when it was recorded, and returns now. `still_failing`: it goes as recorded, or
raises again. `changed`: it had returned and does otherwise now, which may be right. `unknown`: the
replay is inconclusive.
"""
REPAIRS: Final = ("fixed", "still_failing", "changed", "unknown")
MIN_BUDGET: Final = 1_000
MAX_EXAMPLES: Final = 5
"""Trace ids that a group lists."""
_NAME: Final = 160
_REPORT: Final = 2_000

Finished = Callable[[int, int], None]
"""Callback with the number of finished runs, and of all."""


@dataclass(frozen=True)
class RunSet:
    """Runs of several fleet files, and single ones."""

    files: tuple[FleetFile, ...] = ()
    singles: tuple[FleetRun, ...] = ()
    without: frozenset[str] = frozenset()
    """Runs that are left out."""

    def runs(self) -> Iterator[FleetRun]:
        """Yield each run once."""
        seen = set(self.without)
        for source in (self.singles, *(file.runs() for file in self.files)):
            for run in source:
                if run.trace_id not in seen:
                    seen.add(run.trace_id)
                    yield run

    @cached_property
    def ids(self) -> frozenset[str]:
        """Trace ids of the runs."""
        return frozenset(run.trace_id for run in self.runs())

    @property
    def total(self) -> int:
        """Number of runs."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcomes of failing and good runs."""

    failing: dict[Repair, tuple[RunVerdict, ...]]
    good: FleetSummary

    @property
    def assumed(self) -> int:
        """Fixed runs whose calls differ, so that recorded results replace those of new calls."""
        return sum(bool(_kinds(each) - {"output"}) for each in self.failing["fixed"])

    @property
    def failures(self) -> list[str]:
        """Return why the change does not pass."""
        failing = {repair: len(self.failing[repair]) for repair in REPAIRS[1:]}
        good = {kind: self.good.counts[kind] for kind in FAILING}
        return [
            f"{runs}: {counted(count)} {kind}"
            for runs, counts in (("failing", failing), ("good", good))
            for kind, count in counts.items()
            if count
        ]


def verify(
    failing: RunSet, good: RunSet, settings: FleetSettings, *, noted: Finished
) -> Verification:
    """Execute failing and good runs with the code of a working tree.

    Raises:
        FleetRunError: a worker cannot be started.
    """
    total = failing.total + good.total
    verdicts: tuple[list[RunVerdict], list[RunVerdict]] = ([], [])

    def executed(runs: RunSet, found: list[RunVerdict]) -> None:
        def finished(verdict: RunVerdict) -> None:
            found.append(verdict)
            noted(sum(map(len, verdicts)), total)

        run_all(runs, settings, finished)

    executed(failing, verdicts[0])
    executed(good, verdicts[1])
    sorted_out: dict[Repair, list[RunVerdict]] = {repair: [] for repair in REPAIRS}
    for each in verdicts[0]:
        sorted_out[repair_of(each)].append(each)
    repairs = {repair: tuple(found) for repair, found in sorted_out.items()}
    return Verification(repairs, summarize(verdicts[1]))


def repair_of(verdict: RunVerdict) -> Repair:
    """Return the outcome of a failing run."""
    if verdict.kind in ("inconclusive", "flaky", "prompt_changed") or not verdict.recorded_end:
        return "unknown"
    if verdict.kind == "same" or verdict.end == "raised":
        return "still_failing"
    if not verdict.end:
        return "unknown"  # it was stopped: the tape has nothing for the calls that it makes now
    return "fixed" if verdict.recorded_end == "raised" else "changed"


def answer(found: Verification, budget: int, *, indent: int | None = None) -> str:
    """Return the result as JSON text of at most `budget` bytes."""
    counts: dict[str, Any] = {
        "passed": not found.failures,
        "failures": found.failures,
        "failing": {
            "runs": sum(map(len, found.failing.values())),
            **{repair: len(found.failing[repair]) for repair in REPAIRS},
            "fixed_on_recorded_results": found.assumed,
        },
        "good": {"runs": found.good.total, **found.good.counts},
    }
    groups = list(_groups(found))
    shown: list[dict[str, Any]] = []
    cut = {"groups": len(groups), "reports": len(groups)}

    def text() -> str:
        return json.dumps(counts | {"causes": shown, "cut": cut}, ensure_ascii=False, indent=indent)

    def fits() -> bool:
        return len(text().encode()) <= budget

    for group, _ in groups:
        shown.append(group)
        cut["groups"] -= 1
        if not fits():
            shown.pop()
            cut["groups"] += 1
            break
    for group, (_, report) in zip(shown, groups, strict=False):
        cut["reports"] -= 1
        group["report"] = report
        if not fits():
            del group["report"]
            cut["reports"] += 1
            break
    return text()


def _groups(found: Verification) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the causes, those to look at first, each with the report of its example."""
    good = found.good
    for repair in REPAIRS[1:]:
        yield from _described("failing", repair, by_cause(found.failing[repair]))
    for group in good.groups:
        yield from _described("good", group.verdict, [group])
    yield from _described("good", "flaky", by_cause(good.flaky))
    yield from _described("failing", "fixed", by_cause(found.failing["fixed"]))


def _described(
    runs: str, now: str, groups: Iterable[CauseGroup]
) -> Iterator[tuple[dict[str, Any], str]]:
    for group in groups:
        cause = msgspec.to_builtins(group.cause)
        yield (
            {
                "of": runs,
                "now": now,
                "runs": len(group.runs),
                "cause": {name: printable(text)[:_NAME] for name, text in cause.items() if text},
                "trace_ids": [printable(each)[:_NAME] for each in group.runs[:MAX_EXAMPLES]],
            },
            "\n".join(map(printable, group.example.text.splitlines()))[:_REPORT],
        )


def _kinds(verdict: RunVerdict) -> set[str]:
    return {each.kind for each in verdict.causes}
