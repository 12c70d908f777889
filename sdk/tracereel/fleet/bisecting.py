"""First commit between two revisions with which a run is replayed differently."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from tracereel.errors import TracereelError
from tracereel.fleet.file import FleetRun
from tracereel.fleet.runner import FleetSettings, Worker
from tracereel.fleet.source import Revisions
from tracereel.fleet.verdicts import RunVerdict


class BisectError(TracereelError):
    """The two revisions do not enclose a change of the run."""


@dataclass(frozen=True, slots=True)
class Bisected:
    """Result of a bisection."""

    commit: str
    """First commit with another verdict."""
    subject: str
    """First line of its message."""
    verdict: RunVerdict
    unknown: tuple[str, ...]
    """Commits before it whose replay is inconclusive; one of them may be the first."""
    replays: int


def bisect(
    commits: Sequence[str], replayed: Callable[[str], RunVerdict]
) -> tuple[str, tuple[str, ...]]:
    """Return the first commit that is not like the first one, and those before it that are unknown.

    The ends are taken for granted and only replayed if the result rests on them, so that 64 commits
    need at most 7 replays.

    Args:
        commits: the good commit, and those after it up to the bad one.

    Raises:
        BisectError: the good commit does not repeat the run, or the bad one does.
    """
    good, bad = 0, len(commits) - 1
    unknown: set[int] = set()
    while untried := [at for at in range(good + 1, bad) if at not in unknown]:
        middle = (good + bad) / 2
        at = min(untried, key=lambda each: abs(each - middle))
        verdict = replayed(commits[at]).verdict
        if verdict == "inconclusive":
            unknown.add(at)
        elif verdict == "same":
            good = at
        else:
            bad = at
    if good == 0 and (found := replayed(commits[0])).verdict != "same":
        raise BisectError(_said(found, "good", commits[0]))
    if (found := replayed(commits[bad])).verdict in ("same", "inconclusive"):
        raise BisectError(_said(found, "bad", commits[bad]))
    return commits[bad], tuple(commits[good + 1 : bad])


def _said(found: RunVerdict, end: str, commit: str) -> str:
    why = f": {found.cause}" if found.causes else ""
    return f"the run is {found.verdict} with the {end} revision {commit[:12]}{why}"


def first_change(
    run: FleetRun, settings: FleetSettings, good: str, bad: str, *, noted: Callable[[int], None]
) -> Bisected:
    """Bisect the history of the working tree for a run.

    Raises:
        RevisionError: git does not know the revisions, or one does not lead to the other.
        BisectError: they do not enclose a change.
    """
    found: dict[str, RunVerdict] = {}
    with Revisions(settings.root) as revisions:
        commits = revisions.between(good, bad)

        def replayed(commit: str) -> RunVerdict:
            if commit not in found:
                folder: Path = revisions.check_out(commit)
                with closing(Worker(replace(settings, repeats=1), folder)) as worker:
                    found[commit] = worker.run(run)
                noted(len(found))
            return found[commit]

        commit, unknown = bisect(commits, replayed)
        subject = revisions.subject(commit)
    return Bisected(commit, subject, found[commit], unknown, len(found))
