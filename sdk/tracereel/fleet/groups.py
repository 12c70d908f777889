"""Groups of runs by cause, coverage, and whether a policy accepts them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracereel.fleet.estimate import CostEstimate, estimate
from tracereel.fleet.prices import EstimatePrices
from tracereel.fleet.verdicts import Cause, RunVerdict

KINDS: Final = ("same", "changed", "prompt_changed", "inconclusive", "flaky")
FAILING: Final = ("changed", "prompt_changed", "inconclusive", "flaky")
"""Verdicts that a policy can name."""
_COVERED: Final = ("same", "changed", "prompt_changed")
_ORDER: Final = {
    kind: at for at, kind in enumerate(("changed", "prompt_changed", "inconclusive", "same"))
}
MAX_FOLLOWING: Final = 5
_PUBLISHED: Final = EstimatePrices()


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Runs that differ for the same cause."""

    verdict: str
    cause: Cause
    example: RunVerdict
    runs: tuple[str, ...]
    agents: dict[str, int]
    """Agents of the runs, with the number of runs."""
    pipelines: dict[str, int]
    following: tuple[tuple[Cause, int], ...]
    """Further causes in the same runs, with the number of runs."""
    cost: CostEstimate | None = None
    """Cost of the changed prompts."""

    def to_json(self) -> dict[str, Any]:
        """Return the group as plain data."""
        return {
            "verdict": self.verdict,
            "cause": _plain(self.cause),
            "count": len(self.runs),
            "example": {"trace_id": self.example.trace_id, "report": self.example.text},
            "runs": list(self.runs),
            "agents": self.agents,
            "pipelines": self.pipelines,
            "following": [{**_plain(cause), "count": n} for cause, n in self.following],
            "cost": None if self.cost is None else self.cost.to_json(),
        }


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """All verdicts of a fleet replay."""

    counts: dict[str, int]
    groups: tuple[CauseGroup, ...]
    flaky: tuple[RunVerdict, ...]
    """Runs whose repetitions have different verdicts, set aside."""
    culprits: tuple[str, ...]
    networks: tuple[str, ...]
    not_compared: dict[str, int]
    """Values that were not compared, with the number of runs."""
    cpu_seconds: float
    cost: CostEstimate | None = None
    """Cost of all changed prompts."""

    @property
    def total(self) -> int:
        """Number of runs."""
        return sum(self.counts.values())

    @property
    def coverage(self) -> float:
        """Share of the runs whose replay has a verdict about the code."""
        covered = sum(self.counts[kind] for kind in _COVERED)
        return covered / self.total if self.total else 0.0

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.items() if count)
        return f"{self.total} runs: {counts or 'none'}; coverage {self.coverage:.1%}"


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """Conditions for a fleet replay to pass."""

    fail_on: frozenset[str] = frozenset({"changed"})
    min_coverage: float = 0.9

    def failures(self, summary: FleetSummary) -> list[str]:
        """Return why the runs do not pass."""
        found = [
            f"{counted(summary.counts[kind])} {kind}"
            for kind in FAILING
            if kind in self.fail_on and summary.counts[kind]
        ]
        return found + list(filter(None, [self.uncovered(summary)]))

    def uncovered(self, summary: FleetSummary) -> str:
        """Return that the coverage is too low, or an empty string."""
        if summary.coverage >= self.min_coverage:
            return ""
        return f"coverage is {summary.coverage:.1%}; expected {self.min_coverage:.1%}"


def counted(runs: int) -> str:
    """Return a number of runs with its verb."""
    return f"{runs} run is" if runs == 1 else f"{runs} runs are"


def summarize(verdicts: Iterable[RunVerdict], prices: EstimatePrices = _PUBLISHED) -> FleetSummary:
    """Sort verdicts by cause."""
    counts = dict.fromkeys(KINDS, 0)
    differing: list[RunVerdict] = []
    flaky: list[RunVerdict] = []
    culprits, networks, unread = Counter[str](), Counter[str](), Counter[str]()
    cpu_seconds = 0.0
    for each in verdicts:
        counts[each.kind] += 1
        cpu_seconds += each.cpu_seconds
        culprits.update(filter(None, [each.culprit]))
        networks.update(filter(None, [each.network]))
        unread.update(each.not_compared)
        if each.flaky:
            flaky.append(each)
        elif each.verdict != "same":
            differing.append(each)
    return FleetSummary(
        counts,
        tuple(by_cause(differing, prices)),
        tuple(sorted(flaky, key=lambda each: each.trace_id)),
        tuple(culprits),
        tuple(networks),
        dict(unread.most_common(20)),
        round(cpu_seconds, 3),
        estimate((each for run in differing for each in run.prompts), prices),
    )


def by_cause(
    verdicts: Iterable[RunVerdict], prices: EstimatePrices = _PUBLISHED
) -> list[CauseGroup]:
    """Return groups of runs with the same verdict and first cause, the worst and largest first."""
    members: dict[tuple[str, Cause], list[RunVerdict]] = defaultdict(list)
    for each in verdicts:
        members[each.verdict, each.cause].append(each)
    groups = [_group(verdict, cause, runs, prices) for (verdict, cause), runs in members.items()]
    groups.sort(key=lambda group: (_ORDER[group.verdict], -len(group.runs), group.cause))
    return groups


def _group(
    verdict: str, cause: Cause, runs: Sequence[RunVerdict], prices: EstimatePrices
) -> CauseGroup:
    agents = Counter(name for run in runs for name in run.agents)
    pipelines = Counter(name for run in runs for name in run.pipelines)
    following = Counter(each for run in runs for each in dict.fromkeys(run.causes[1:]))
    following.pop(cause, None)
    # The example with the fewest other differences is the easiest to read.
    example = min(runs, key=lambda run: (len(run.causes), len(run.text), run.trace_id))
    return CauseGroup(
        verdict,
        cause,
        example,
        tuple(sorted(run.trace_id for run in runs)),
        dict(agents.most_common()),
        dict(pipelines.most_common()),
        tuple(following.most_common(MAX_FOLLOWING)),
        estimate((each for run in runs for each in run.prompts), prices),
    )


def _plain(cause: Cause) -> dict[str, str]:
    return {
        "kind": cause.kind,
        "place": cause.place,
        "code": cause.code,
        "argument": cause.argument,
    }
