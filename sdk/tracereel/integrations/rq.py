"""RQ integration: a job continues the run that enqueued it, and is recorded as a pipeline.

    queue = rq.Queue(connection=redis, job_class=TracedJob)
    worker = rq.Worker([queue], connection=redis, job_class=TracedJob)

From the command line: `rq worker --job-class tracereel.integrations.rq.TracedJob`.
"""

from typing import Any

from tracereel._runtime import guard
from tracereel.integrations import _packages
from tracereel.integrations._task_run import Task, begin_task
from tracereel.propagation import inject

with _packages.needed("rq"):
    from rq.job import Job

_packages.warn_if_old("rq")


class TracedJob(Job):
    """Job whose `meta` carries the run that enqueued it."""

    @classmethod
    def create(cls, *args: Any, meta: dict[str, Any] | None = None, **options: Any) -> Job:
        """Create a job in the current run."""
        return super().create(*args, meta=inject(dict(meta or {})), **options)

    def perform(self) -> Any:
        """Run the job in the run that enqueued it."""
        run = None
        with guard.Guard("rq"):
            run = begin_task(self._described(), self.meta)
        if run is None:
            return super().perform()
        try:
            result = super().perform()
        except BaseException as error:
            run.fail(error)
            raise
        run.complete(result)
        return result

    def _described(self) -> Task:
        return Task(
            name=str(self.func_name),
            task_id=self.id,
            queue=self.origin,
            args=tuple(self.args or ()),
            kwargs=dict(self.kwargs or {}),
        )
