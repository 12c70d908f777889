"""Run of one task of a queue worker; it continues the run that enqueued the task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracereel._core import recorder as _recorder
from tracereel._core import tape_session
from tracereel._core.executions.arguments import Arguments
from tracereel._core.executions.pipeline import PipelineScope, PipelineSpec
from tracereel._core.recorder import Recorder
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel.propagation import Extraction, extract

UNNAMED: Final = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Description of a task by its queue."""

    name: str
    task_id: str | None
    queue: str | None
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    attempt: int | None = None
    """Number of the attempt, from 1, if the queue knows it."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of its events."""
        return {
            "task_id": values.label(self.task_id),
            "task_attempt": self.attempt,
            "task_queue": values.label(self.queue),
        }


class TaskSpec(PipelineSpec):
    """One task as a pipeline of its name."""

    __slots__ = ("task",)

    def __init__(self, task: Task) -> None:
        name = values.text(task.name or UNNAMED, values.SHORT_LIMIT)
        super().__init__(name, agents=None, ids={}, inputs=None)
        self.task = task

    def open(self, recorder: Recorder, arguments: Arguments) -> "TaskScope":
        """Open the scope of the task."""
        return TaskScope(recorder, self, arguments)


class TaskScope(PipelineScope):
    """One attempt of a task."""

    spec: TaskSpec

    __slots__ = ()

    def opened(self) -> None:
        # Functions inside of the task are the entry points of a re-execution.
        self.execution.notes[tape_session.OUTSIDE] = True

    def opening(self) -> dict[str, Any]:
        return {**super().opening(), **self.spec.task.fields()}

    def closed_fields(self, status: str, milliseconds: int) -> dict[str, Any]:
        return {**super().closed_fields(status, milliseconds), **self.spec.task.fields()}


class TaskRun:
    """Task in progress; its methods never raise."""

    __slots__ = ("_extraction", "_scope")

    def __init__(self, extraction: Extraction, scope: TaskScope) -> None:
        self._extraction = extraction
        self._scope = scope

    def complete(self, result: object) -> None:
        """End a task that returned."""
        self._scope.complete(result)
        self._leave()

    def fail(self, error: BaseException) -> None:
        """End a task that raised."""
        self._scope.fail(error)
        self._leave()

    def cancel(self) -> None:
        """End a task that was given up."""
        self._scope.cancel()
        self._leave()

    def _leave(self) -> None:
        self._extraction.__exit__(None, None, None)


def begin_task(task: Task, headers: object) -> TaskRun | None:
    """Begin a task in the run of its headers; `None` if nothing is recorded."""
    recorder = _recorder.active()
    if recorder is None:
        return None
    extraction = extract(headers)
    extraction.__enter__()
    try:
        arguments = Arguments((), 0, tuple(task.args), task.kwargs)
        scope = TaskSpec(task).open(recorder, arguments)
        scope.attach()
    except Exception as error:  # noqa: BLE001
        extraction.__exit__(None, None, None)
        guard.report("task", error)
        return None
    return TaskRun(extraction, scope)
