"""What an exception says about a failure: type, message, code, category, stage, where it was raised."""

import asyncio
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tracereel import _guard, _objects, _values, failures, semconv
from tracereel._run import Ended

MESSAGE_LIMIT: Final = 4096
MAX_FRAMES: Final = 32

CANCELLATIONS: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)
"""Stopped from outside: not a failure of the agent."""
MAX_MARKS: Final = 16
MAX_MEMBERS: Final = 64

_CARRIERS: Final = (str, list, tuple, dict, set, frozenset)
_MUCH: Final = 64 * 1024
_ORIGIN: Final = "__tracereel_origin__"
_FAILED: Final = "__tracereel_failed__"
_LIMIT: Final = "__tracereel_limit__"
_RUN: Final = "__tracereel_run__"


def cancels(error: BaseException) -> bool:
    """Whether a call that raises this was stopped, not failed: also a program that ends, and well."""
    if isinstance(error, SystemExit):
        code = error.code
        return code is None or (isinstance(code, int) and int(code) == 0)
    # Greenlets are ended by an exception of a library that we do not import.
    return isinstance(error, CANCELLATIONS) or type(error).__name__ == "GreenletExit"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception as the contract describes it."""

    error_type: str
    error_message: str
    error_code: str | None
    error_category: str | None
    stage: str | None = None
    timeout_seconds: float | None = None


def describe(error: BaseException) -> Failure:
    """Read an exception; its own code may raise, that is part of what is told."""
    code, category, stage = _classified(error)
    limit = _limit(error)
    leaves = (each for each in _members(error) if not isinstance(each, BaseExceptionGroup))
    if (first := next(leaves, None)) is not None:
        # A group, as a `TaskGroup` raises it, is what its first error is, where it says nothing itself.
        found = _classified(first)
        code, category, stage = code or found[0], category or found[1], stage or found[2]
        limit = limit or _limit(first)
    return Failure(
        error_type=_values.type_name(error),
        error_message=_message(error),
        error_code=code,
        error_category=category,
        stage=stage,
        timeout_seconds=limit,
    )


def _classified(error: BaseException) -> tuple[str | None, str | None, str | None]:
    """Code, category and stage, from the error itself and the table."""
    code, category, stage = _said(error, "code"), None, None
    names = frozenset(base.__name__ for base in type.__getattribute__(type(error), "__mro__"))
    for rule in failures.rules():
        if rule.matches(error, names):
            code, category = code or rule.code, category or rule.category
            stage = stage or rule.stage
            if code and category and stage:
                break
    return code, category, stage


def _members(error: BaseException) -> Iterator[BaseException]:
    """The errors and groups in a group, outer ones first, as many as are looked at; of others, none."""
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
    """Where an exception was first seen: the execution and stage; and who should see it next."""

    execution_id: str
    stage: str | None
    next_span_id: str | None


def origin_of(error: BaseException, span_id: str) -> Origin | None:
    """Where an exception comes from, if the call that saw it last was made by this span.

    Asked that way because an exception object may be raised anew, by a retry or as a constant. A group
    comes from where the first of its errors does that comes from anywhere.
    """
    found = _origin_on(error, span_id)
    if found is None:
        marked = (_origin_on(each, span_id) for each in _members(error))
        found = next((origin for origin in marked if origin is not None), None)
    return found


def _origin_on(error: BaseException, span_id: str) -> Origin | None:
    try:
        found = object.__getattribute__(error, "__dict__").get(_ORIGIN)
    except Exception as raised:  # noqa: BLE001 - an exception without a dictionary
        _guard.pass_on(raised)
        return None
    if type(found) is not tuple or found[2] != span_id:
        return None
    return Origin(*found)


def mark_origin(error: BaseException, origin: Origin) -> None:
    """Leave word on the exception; only text, so that nothing is kept alive by it."""
    try:
        own = object.__getattribute__(error, "__dict__")
        own[_ORIGIN] = (origin.execution_id, origin.stage, origin.next_span_id)
    except Exception as raised:  # noqa: BLE001 - an exception without a dictionary
        _guard.pass_on(raised)


def mark_failed(error: BaseException, name: str, execution_id: str, earlier: int) -> None:
    """Note on the exception that an agent failed with it, for a loop that tries again; only text."""
    try:
        own = object.__getattribute__(error, "__dict__")
        before = own.get(_FAILED)
        marks = before if type(before) is tuple else ()
        own[_FAILED] = (*marks[1 - MAX_MARKS :], (name, execution_id, earlier))
    except Exception as raised:  # noqa: BLE001 - an exception without a dictionary
        _guard.pass_on(raised)


def mark_run(error: BaseException, execution_id: str) -> None:
    """Note on the exception that it ended a whole run, for a loop that tries again; only text."""
    try:
        object.__getattribute__(error, "__dict__")[_RUN] = execution_id
    except Exception as raised:  # noqa: BLE001 - an exception without a dictionary
        _guard.pass_on(raised)


def take_runs(error: BaseException) -> list[str]:
    """Executions that ended whole runs with an exception, its members or what it was raised from."""
    found = []
    for each in (error, *_members(error), *_causes(error)):
        try:
            mark = object.__getattribute__(each, "__dict__").pop(_RUN, None)
        except Exception as raised:  # noqa: BLE001 - an exception without a dictionary
            _guard.pass_on(raised)
            continue
        if type(mark) is str:
            found.append(mark)
    return found


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What an exception was said to come from, so far as anybody looks."""
    found = error.__cause__
    for _ in range(MAX_MARKS):
        if found is None:
            return
        yield found
        found = found.__cause__


def mark_limit(error: BaseException, seconds: float) -> None:
    """Note on a timeout which limit was passed; Python's own does not say."""
    try:
        object.__getattribute__(error, "__dict__")[_LIMIT] = seconds
    except Exception as raised:  # noqa: BLE001 - an exception without a dictionary
        _guard.pass_on(raised)


def failed_agents(error: BaseException) -> list[Ended]:
    """The executions of agents that failed with an exception since this was asked last."""
    try:
        marks = object.__getattribute__(error, "__dict__").pop(_FAILED, ())
    except Exception as raised:  # noqa: BLE001 - an exception without a dictionary
        _guard.pass_on(raised)
        return []
    return [
        Ended(name, execution_id, semconv.FAILED, retry_count=earlier, earlier=earlier)
        for name, execution_id, earlier in (marks if type(marks) is tuple else ())
    ]


def stack_trace(error: BaseException) -> str | None:
    """The traceback as text: the innermost frames, bounded."""
    try:
        lines = _traceback(error)
        kept: list[str] = []
        left = _values.TEXT_LIMIT
        for line in lines:
            kept.append(line)
            left -= len(line)
            if left <= 0:
                break
        return _values.text("".join(kept))
    except Exception as raised:  # noqa: BLE001 - sources, reprs and notes are the user's
        _guard.pass_on(raised)
        return None


def _traceback(error: BaseException) -> Iterable[str]:
    if any(_carries_much(each) for each in _chain(error)):
        # Python would write out all that the exceptions carry, to show the last line of each.
        frames = traceback.format_tb(error.__traceback__, limit=-MAX_FRAMES)
        last = f"{_values.type_name(error)}: {_message(error)}\n"
        return ["Traceback (most recent call last):\n", *frames, last]
    return traceback.TracebackException(
        type(error), error, error.__traceback__, limit=-MAX_FRAMES, compact=True
    ).format()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and those it came from; of a long chain more than anybody reads."""
    found: BaseException | None = error
    for _ in range(MAX_MARKS):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


def _carried(error: BaseException) -> tuple[object, ...]:
    """The arguments of an exception; a class of the user's may have made a property of them."""
    given = BaseException.__dict__["args"].__get__(error)
    return given if type(given) is tuple else ()


def _carries_much(error: BaseException) -> bool:
    """Whether the text of an exception is that of what it carries, and that is not small."""
    if _values.class_attribute(type(error), "__str__") is not BaseException.__str__:
        return False
    return any(
        issubclass(type(each), _CARRIERS) and _values.size(each) > _MUCH for each in _carried(error)
    )


def _message(error: BaseException) -> str:
    try:
        if _carries_much(error):
            carried = _carried(error)
            shown = carried[0] if len(carried) == 1 else carried
            return _values.summary(shown, MESSAGE_LIMIT)
        return _values.text(str(error), MESSAGE_LIMIT)
    except Exception as raised:  # noqa: BLE001 - an exception whose text raises
        _guard.pass_on(raised)
        return "<no text: str() of the exception raised>"


def _said(error: BaseException, name: str) -> str | None:
    try:
        value = getattr(error, name, None)
    except Exception as raised:  # noqa: BLE001 - a property of the user's
        _guard.pass_on(raised)
        return None
    return _values.label(value) or None if issubclass(type(value), str) else None


def _limit(error: BaseException) -> float | None:
    found = _objects.attributes(error, (_LIMIT, "timeout_seconds", "timeout"))
    return next((number for said in found.values() if (number := _values.real(said))), None)
