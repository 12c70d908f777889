"""Decisions: what an agent chose and why, as an event, a span event and a log line."""

import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, ParamSpec, TypedDict, TypeVar, Unpack, cast

from tracereel import _context, _guard, _objects, _recorder, _values, semconv
from tracereel._clock import sortable_id

P = ParamSpec("P")
R = TypeVar("R")

_READ: Final = ("confidence", "reasoning", "candidates", "chosen", "was_cached", "cache_hit_key")
"""What a decision function's result may say of itself."""


class DecisionFields(TypedDict, total=False):
    """What may be said of a decision."""

    category: str | None
    reasoning: str | None
    confidence: float | None
    input_data: Mapping[str, Any] | None
    output_data: Mapping[str, Any] | None
    duration_ms: float | None
    was_cached: bool
    cache_hit_key: str | None
    candidates: Sequence[Any] | None
    chosen: Any


def record_decision(decision_type: str, **fields: Unpack[DecisionFields]) -> str:
    """Write a decision of the current agent down; gives its id.

    Inside a pipeline but outside its agents, the pipeline is named as the one that decided. Outside
    both there is no trace it could belong to: it is dropped and counted, nothing is raised.
    """
    decision_id = sortable_id("dec")
    with _guard.Guard("decision"):
        _record(decision_id, decision_type, cast("dict[str, Any]", fields))
    return decision_id


def _record(decision_id: str, decision_type: object, fields: dict[str, Any]) -> None:
    recorder = _recorder.active()
    if recorder is None:
        return
    execution = _context.current_execution()
    if execution is None:
        recorder.drop("no_execution")
        _guard.log.debug("tracereel: a decision outside of any traced agent was dropped")
        return
    captures = recorder.config.capture_content
    get = fields.get
    execution.emit(
        {
            "event_type": semconv.DECISION_RECORDED,
            "agent_name": agent.name if (agent := execution.agent).kind == "agent" else None,
            "decision_id": decision_id,
            "decision_type": _values.label(decision_type) or _values.type_name(decision_type),
            "decision_category": _values.label(get("category")),
            "reasoning": _values.label(get("reasoning"), _values.TEXT_LIMIT) if captures else None,
            "confidence": _values.ratio(get("confidence")),
            "input_data": _values.plain_dict(get("input_data")) if captures else None,
            "output_data": _values.plain_dict(get("output_data")) if captures else None,
            "decision_duration_ms": _duration(get("duration_ms")),
            "was_cached": get("was_cached") is True,
            "cache_hit_key": _values.label(get("cache_hit_key")),
            "candidates": _list(get("candidates")) if captures else None,
            "chosen": _values.plain(get("chosen")) if captures else None,
        }
    )


class Decision:
    """A decision being taken; recorded when it has been."""

    __slots__ = ("_fields", "_tick", "_type", "decision_id")

    def __init__(self, decision_type: str, fields: dict[str, Any]) -> None:
        self.decision_id = sortable_id("dec")
        self._type = decision_type
        self._fields = dict(fields)
        self._tick = time.perf_counter_ns()

    def set(self, **fields: Unpack[DecisionFields]) -> None:
        """Say what is known of it. Later values win."""
        self._fields.update(fields)

    def candidates(self, result: object) -> object:
        """What it could come out as, if it, or its result, says so."""
        said = self._fields.get("candidates")
        return said if said is not None else _objects.attributes(result, _READ).get("candidates")

    def close(self, result: object = None) -> None:
        """It has been taken, with this result."""
        with _guard.Guard("decision"):
            fields = self._fields
            if result is not None:
                fields.setdefault("output_data", result)
                for name, value in _objects.attributes(result, _READ).items():
                    fields.setdefault(name, value)
            if fields.get("duration_ms") is None:
                fields["duration_ms"] = (time.perf_counter_ns() - self._tick) / 1e6
            _record(self.decision_id, self._type, fields)


_deciding: ContextVar[Decision | None] = ContextVar("tracereel_decision", default=None)


def current_decision() -> Decision:
    """The decision that is being taken here; a stand-in that keeps nothing where there is none."""
    return _deciding.get() or Decision("", {})


class traced_decision:  # noqa: N801 - used as a decorator, beside functions
    """Record what a function, coroutine function or `with` block decides, and how long it took.

    The arguments are the input, the result the output. A result with `confidence`, `reasoning`,
    `chosen`, `candidates`, `was_cached` or `cache_hit_key`, as keys or data, says those too;
    `current_decision().set(…)` inside wins. A function that raises has not decided: nothing is recorded.
    """

    __slots__ = ("_entered", "_fields", "_type")

    def __init__(self, decision_type: str, **fields: Unpack[DecisionFields]) -> None:
        if not isinstance(decision_type, str) or not decision_type:
            raise TypeError(f"traced_decision takes a type of decision; got {decision_type!r}")
        self._type = decision_type
        self._fields = cast("dict[str, Any]", fields)
        self._entered: list[tuple[Decision, Token[Decision | None]]] = []

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function or coroutine function.

        Raises:
            TypeError: the function is a generator: it has no one result.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"a decision is one result; {function!r} is a generator")
        if isinstance(function, (staticmethod, classmethod)):
            return cast("Callable[P, R]", type(function)(self(function.__func__)))
        try:
            names = tuple(inspect.signature(function).parameters)
        except (TypeError, ValueError):  # builtins without a signature
            names = ()

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Decision | None:
            if _recorder.active() is None:
                return None
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            given.pop("self", None)
            given.pop("cls", None)
            return Decision(self._type, {"input_data": given or None, **self._fields})

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def decide_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                decision = begin(args, kwargs)
                token = _deciding.set(decision)
                forced, result = _forced(self._type)
                try:
                    if not forced:
                        result = await function(*args, **kwargs)
                finally:
                    _leave(token)
                _decided(self._type, result, decision)
                if decision is not None:
                    decision.close(result)
                return result

            return cast("Callable[P, R]", decide_async)

        @functools.wraps(function)
        def decide(*args: P.args, **kwargs: P.kwargs) -> R:
            decision = begin(args, kwargs)
            token = _deciding.set(decision)
            forced, result = _forced(self._type)
            try:
                if not forced:
                    result = function(*args, **kwargs)
            finally:
                _leave(token)
            _decided(self._type, result, decision)
            if decision is not None:
                decision.close(result)
            return cast("R", result)

        return decide

    def __enter__(self) -> Decision:
        decision = Decision(self._type, self._fields)
        self._entered.append((decision, _deciding.set(decision)))
        return decision

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        decision, token = self._entered.pop()
        _leave(token)
        if error is None:
            decision.close()


def _forced(decision_type: str) -> tuple[bool, Any]:
    """Whether a re-execution says how a decision comes out, and how."""
    recorder = _recorder.active()
    if recorder is None or recorder.tape is None:
        return False, None
    return recorder.tape.decide(_context.current_execution(), decision_type)


def _decided(decision_type: str, result: object, decision: Decision | None) -> None:
    recorder = _recorder.active()
    if recorder is not None and recorder.tape is not None:
        candidates = decision.candidates(result) if decision is not None else None
        recorder.tape.decided(_context.current_execution(), decision_type, result, candidates)


def _leave(token: Token[Decision | None]) -> None:
    try:
        _deciding.reset(token)
    except ValueError:  # a coroutine closed in another context than it ran in
        pass


def _duration(value: object) -> int | None:
    """Milliseconds as a whole number; callers often measure them as a float."""
    number = _values.real(value)
    return None if number is None else _values.count(round(number))


def _list(value: object) -> list[Any] | None:
    if value is None:
        return None
    data = _values.plain(value)
    return data if isinstance(data, list) else [data]
