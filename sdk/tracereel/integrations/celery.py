"""Celery integration: a task continues the run that enqueued it, and is recorded as a pipeline.

    from tracereel.integrations import celery
    celery.instrument()

Call it in the program that enqueues tasks and in the worker, for instance in the module that makes the
Celery application.
"""

from typing import Any, Final

from tracereel._runtime import guard
from tracereel.integrations import _packages
from tracereel.integrations._task_run import Task, begin_task
from tracereel.propagation import inject

_NAME: Final = "tracereel"
_RUN: Final = "tracereel_run"
"""Attribute of a task's request with its run."""
_RAISED: Final = ("FAILURE", "RETRY")
_ENDED: Final = ("SUCCESS", "IGNORED")


def instrument() -> None:
    """Record the tasks of all Celery applications of this process until `uninstrument`."""
    for signal, receiver in _receivers():
        signal.connect(receiver, weak=False, dispatch_uid=_NAME)


def uninstrument() -> None:
    """Undo `instrument`."""
    for signal, receiver in _receivers():
        signal.disconnect(receiver, dispatch_uid=_NAME)


def _receivers() -> list[tuple[Any, Any]]:
    with _packages.needed("celery"):
        from celery import signals

    _packages.warn_if_old("celery")
    return [
        (signals.before_task_publish, _publishing),
        (signals.task_prerun, _beginning),
        (signals.task_postrun, _ended),
    ]


def _publishing(headers: Any = None, **_more: Any) -> None:
    """Write the current run into the headers of a message."""
    if isinstance(headers, dict):
        inject(headers)


def _beginning(task: Any = None, args: Any = None, kwargs: Any = None, **_more: Any) -> None:
    with guard.Guard("celery"):
        request = task.request
        # Headers of a message are attributes of the request; a retry keeps those of the first attempt.
        headers = {**(request.headers or {}), **vars(request)}
        delivery = request.delivery_info or {}
        described = Task(
            name=str(task.name),
            task_id=request.id,
            attempt=1 + int(request.retries or 0),
            queue=delivery.get("routing_key"),
            args=tuple(args or ()),
            kwargs=dict(kwargs or {}),
        )
        setattr(request, _RUN, begin_task(described, headers))


def _ended(task: Any = None, retval: Any = None, state: Any = None, **_more: Any) -> None:
    with guard.Guard("celery"):
        run = vars(task.request).pop(_RUN, None)
        if run is None:
            return
        if state in _RAISED and isinstance(retval, BaseException):
            # A retry that Celery was asked for has the error as its cause.
            run.fail(getattr(retval, "exc", None) or retval)
        elif state in _ENDED:
            run.complete(retval)
        else:
            run.cancel()
