"""Jobs that runs give to thread pools: the order of calls in different jobs does not count.

A thread of a pool may work for many jobs, and one job may begin long after another only because the
pool is small. So each call is recorded with the jobs around it, and with how many results the run
had when each of them was given to the pool: what came later did not have to precede the job.
"""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracereel.tape.run_tape import RunTape

MAX_JOBS: Final = 16
"""Jobs inside of each other that are recorded."""
Job = tuple[int, int]
"""Number of a job, and the number of results that the run had when it was given to the pool."""

_here: Final = threading.local()


class PoolJob:
    """Job of a run, with the jobs around it."""

    __slots__ = ("jobs", "tape")

    def __init__(self, tape: "RunTape") -> None:
        self.tape = weakref.ref(tape)
        self.jobs = (*jobs_here(tape), tape.new_job())[:MAX_JOBS]

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs as this job."""

        def run(*args: Any, **kwargs: Any) -> Any:
            before, _here.job = current(), self
            try:
                return function(*args, **kwargs)
            finally:
                _here.job = before

        return run


def current() -> PoolJob | None:
    """Return the job that this thread works on."""
    return getattr(_here, "job", None)


def jobs_here(tape: "RunTape") -> tuple[Job, ...]:
    """Return the jobs of a run that this thread works on, the outermost first."""
    job = current()
    return job.jobs if job is not None and job.tape() is tape else ()


def results_before(jobs: Sequence[Job], others: Sequence[Job], *, now: int) -> int:
    """Return how many results must precede a call in some jobs, of the calls in other jobs.

    Within a job all `now` results; else those that were there when the job was given to the pool.
    """
    for depth, job in enumerate(jobs):
        if depth >= len(others) or others[depth] != job:
            return job[1]
    return now
