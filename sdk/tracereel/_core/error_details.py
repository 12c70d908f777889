"""Describes exceptions: type, message, code, category, stage and origin."""

import asyncio
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tracereel import failures, semconv
from tracereel._core.run_state import Ended
from tracereel._redact import safe_access, values
from tracereel._runtime import guard

MESSAGE_LIMIT: Final = 4096
MAX_FRAMES: Final = 32

CANCELLATIONS: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)
"""Exceptions of calls that were stopped from outside, which are not failures of the agent."""
MAX_MARKS: Final = 16
MAX_MEMBERS: Final = 64

_CARRIERS: Final = (str, list, tuple, dict, set, frozenset)
_MUCH: Final = 64 * 1024
_ORIGIN: Final = "__tracereel_origin__"
_FAILED: Final = "__tracereel_failed__"
_LIMIT: Final = "__tracereel_limit__"
_RUN: Final = "__tracereel_run__"


def cancels(error: BaseException) -> bool:
    """Return whether this error means that the call was stopped; includes successful exits."""
    if isinstance(error, SystemExit):
        code = error.code
        return code is None or (isinstance(code, int) and int(code) == 0)
    # gevent's exception, matched by name because gevent is not imported.
    return isinstance(error, CANCELLATIONS) or type(error).__name__ == "GreenletExit"


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """Error fields of the contract."""

    error_type: str
    error_message: str
    error_code: str
    error_category: str
    stage: str | None = None
    timeout_seconds: float | None = None


def describe(error: BaseException) -> ErrorDetails:
    """Describe an exception, even if its own methods raise.

    An error that no rule knows is permanent and `UNHANDLED`.
    """
    code, category, stage = _classified(error)
    limit = _limit(error)
    leaves = (each for each in _members(error) if not isinstance(each, BaseExceptionGroup))
    if (first := next(leaves, None)) is not None:
        # A group (as of `TaskGroup`) takes missing values from its first error.
        found = _classified(first)
        code, category, stage = code or found[0], category or found[1], stage or found[2]
        limit = limit or _limit(first)
    return ErrorDetails(
        error_type=values.type_name(error),
        error_message=_message(error),
        error_code=code or semconv.CODE_UNHANDLED,
        error_category=category or failures.PERMANENT,
        stage=stage,
        timeout_seconds=limit,
    )


def _classified(error: BaseException) -> tuple[str | None, str | None, str | None]:
    """Return code, category and stage from the error and the failure table."""
    code, category, stage = _label_attribute(error, "code"), None, None
    names = frozenset(base.__name__ for base in type.__getattribute__(type(error), "__mro__"))
    for rule in failures.rules():
        if rule.matches(error, names):
            code, category = code or rule.code, category or rule.category
            stage = stage or rule.stage
            if code and category and stage:
                break
    if isinstance(error, failures.ClassifiedError):  # rules of the program come first
        category, stage = category or error.category, stage or error.stage
    return code, category, stage


def _members(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors and groups inside a group, outer ones first, up to a limit."""
    waiting = [error]
    for _ in range(MAX_MEMBERS):
        if not waiting:
            return
        found = waiting.pop()
        if found is not error:
            yield found
        if isinstance(found, BaseExceptionGroup):
            inside = BaseExceptionGroup.__dict__["exceptions"].__get__(found)
            waiting.extend(inside[MAX_MEMBERS::-1])


@dataclass(frozen=True, slots=True)
class Origin:
    """Execution and stage where an exception was first seen, and the span to see it next."""

    execution_id: str
    stage: str | None
    next_span_id: str | None


def origin_of(error: BaseException, span_id: str) -> Origin | None:
    """Return the origin of an exception if this span made the call that saw it last.

    The check is needed because an exception object may be raised again, by a retry or as a constant. The
    origin of a group is that of its first error with an origin.
    """
    found = _origin_on(error, span_id)
    if found is None:
        marked = (_origin_on(each, span_id) for each in _members(error))
        found = next((origin for origin in marked if origin is not None), None)
    return found


def _origin_on(error: BaseException, span_id: str) -> Origin | None:
    found = _attributes(error).get(_ORIGIN)
    return Origin(*found) if type(found) is tuple and found[2] == span_id else None


def _attributes(error: BaseException) -> dict[str, Any]:
    """Return the `__dict__` of an exception, to mark it with texts, which keep nothing alive."""
    try:
        own: dict[str, Any] = object.__getattribute__(error, "__dict__")
    except Exception as raised:  # noqa: BLE001 - the exception has no `__dict__`
        guard.pass_on(raised)
        return {}
    return own


def mark_origin(error: BaseException, origin: Origin) -> None:
    """Store the origin on the exception."""
    _attributes(error)[_ORIGIN] = (origin.execution_id, origin.stage, origin.next_span_id)


def mark_failed(error: BaseException, name: str, execution_id: str, earlier: int) -> None:
    """Store the failed execution on the exception, for retry loops."""
    own = _attributes(error)
    before = own.get(_FAILED)
    marks = before if type(before) is tuple else ()
    own[_FAILED] = (*marks[1 - MAX_MARKS :], (name, execution_id, earlier))


def mark_run(error: BaseException, execution_id: str) -> None:
    """Store on the exception that it ended a run, for retry loops."""
    _attributes(error)[_RUN] = execution_id


def take_runs(error: BaseException) -> list[str]:
    """Remove and return the ids of runs ended by an exception, its members or its causes."""
    carriers = (error, *_members(error), *_causes(error))
    found = [_attributes(each).pop(_RUN, None) for each in carriers]
    return [mark for mark in found if type(mark) is str]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the explicit causes of an exception, up to a limit."""
    found = error.__cause__
    for _ in range(MAX_MARKS):
        if found is None:
            return
        yield found
        found = found.__cause__


def mark_limit(error: BaseException, seconds: float) -> None:
    """Store the exceeded limit on a timeout error, which Python does not provide."""
    _attributes(error)[_LIMIT] = seconds


def failed_agents(error: BaseException) -> list[Ended]:
    """Remove and return the agent executions that failed with an exception."""
    marks = _attributes(error).pop(_FAILED, ())
    return [
        Ended(name, execution_id, semconv.FAILED, retry_count=earlier, earlier=earlier)
        for name, execution_id, earlier in (marks if type(marks) is tuple else ())
    ]


def stack_trace(error: BaseException) -> str | None:
    """Return the traceback as text, limited to the innermost frames."""
    try:
        lines = _traceback(error)
        kept: list[str] = []
        left = values.TEXT_LIMIT
        for line in lines:
            kept.append(line)
            left -= len(line)
            if left <= 0:
                break
        return values.text("".join(kept))
    except Exception as raised:  # noqa: BLE001 - reprs and notes are user code
        guard.pass_on(raised)
        return None


def _traceback(error: BaseException) -> Iterable[str]:
    if any(_carries_much(each) for each in _chain(error)):
        # Python would format the whole arguments only to show the last line.
        frames = traceback.format_tb(error.__traceback__, limit=-MAX_FRAMES)
        last = f"{values.type_name(error)}: {_message(error)}\n"
        return ["Traceback (most recent call last):\n", *frames, last]
    return traceback.TracebackException(
        type(error), error, error.__traceback__, limit=-MAX_FRAMES, compact=True
    ).format()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes and contexts, up to a limit."""
    found: BaseException | None = error
    for _ in range(MAX_MARKS):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


def _carried(error: BaseException) -> tuple[object, ...]:
    """Return the exception's arguments, even if a subclass overrides `args`."""
    given = BaseException.__dict__["args"].__get__(error)
    return given if type(given) is tuple else ()


def _carries_much(error: BaseException) -> bool:
    """Return whether the exception's text is made of large arguments."""
    if values.class_attribute(type(error), "__str__") is not BaseException.__str__:
        return False
    return any(
        issubclass(type(each), _CARRIERS) and values.size(each) > _MUCH for each in _carried(error)
    )


def _message(error: BaseException) -> str:
    try:
        if _carries_much(error):
            carried = _carried(error)
            shown = carried[0] if len(carried) == 1 else carried
            return values.summary(shown, MESSAGE_LIMIT)
        return values.text(str(error), MESSAGE_LIMIT)
    except Exception as raised:  # noqa: BLE001 - `str()` of the exception raised
        guard.pass_on(raised)
        return "<no text: str() of the exception raised>"


def _label_attribute(error: BaseException, name: str) -> str | None:
    try:
        value = getattr(error, name, None)
    except Exception as raised:  # noqa: BLE001 - a property of user code raised
        guard.pass_on(raised)
        return None
    return values.label(value) or None if issubclass(type(value), str) else None


def _limit(error: BaseException) -> float | None:
    found = safe_access.attributes(error, (_LIMIT, "timeout_seconds", "timeout"))
    return next((number for each in found.values() if (number := values.real(each))), None)
