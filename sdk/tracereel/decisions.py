"""Agent decisions, recorded as an event, a span event and a log line."""

import functools
import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from itertools import islice
from typing import Any, Final, ParamSpec, TypedDict, TypeVar, Unpack, cast

from tracereel import semconv
from tracereel._core import context
from tracereel._core import recorder as _recorder
from tracereel._redact import safe_access, values
from tracereel._runtime import guard
from tracereel._runtime.clock import sortable_id

P = ParamSpec("P")
R = TypeVar("R")

_READ: Final = (
    *("confidence", "reasoning", "candidates", "chosen", "scores", "threshold"),
    *("was_cached", "cache_hit_key"),
)
"""Fields that are read from the result of a decision function."""
_OUTCOME: Final = ("chosen", "output_data", "confidence", "category", "reasoning")
"""Fields that are the outcome of a decision on a tape."""
_SCORES: Final = ("score", "confidence", "probability")
"""Fields of a candidate that hold its score."""
_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), range)
_MAX_CANDIDATES: Final = 1_000
_NODES: Final = 200
_CHARS: Final = 4_096
"""Limits of data that is recorded although the program did not pass it to the decision."""


class DecisionFields(TypedDict, total=False):
    """Optional fields of a decision."""

    category: str | None
    reasoning: str | None
    confidence: float | None
    input_data: Mapping[str, Any] | None
    output_data: Mapping[str, Any] | None
    duration_ms: float | None
    was_cached: bool
    cache_hit_key: str | None
    candidates: Sequence[Any] | Mapping[Any, float] | None
    """Candidates, or each with its score."""
    chosen: Any
    scores: Mapping[Any, float] | Sequence[float | None] | None
    """Scores of the candidates, by candidate or in their order."""
    threshold: float | None
    """Score or confidence that was required."""


def record_decision(decision_type: str, **fields: Unpack[DecisionFields]) -> str:
    """Record a decision of the current agent and return its id.

    In a pipeline but outside of its agents, the decision belongs to the pipeline. Outside of both it has
    no trace: it is dropped and counted, and nothing is raised.
    """
    decision_id = sortable_id("dec")
    with guard.Guard("decision"):
        _record(decision_id, decision_type, cast("dict[str, Any]", fields))
    _compared(decision_type, cast("dict[str, Any]", fields))
    return decision_id


def _compared(decision_type: str, fields: dict[str, Any]) -> None:
    """Put a decision that no function made on the tape, or compare it with the one there."""
    recorder = _recorder.active()
    if recorder is not None and recorder.tape is not None:
        outcome = {name: fields[name] for name in _OUTCOME if fields.get(name) is not None}
        execution, given = context.current_execution(), _offered(fields.get("candidates"))
        recorder.tape.decided(execution, decision_type, outcome, given)


def _record(decision_id: str, decision_type: object, fields: dict[str, Any]) -> None:
    recorder = _recorder.active()
    if recorder is None:
        return
    execution = context.current_execution()
    if execution is None:
        recorder.drop("no_execution")
        guard.log.debug("tracereel: a decision outside of any traced agent was dropped")
        return
    captures = recorder.config.capture_content
    get = fields.get
    outcome = {
        "decision_type": values.label(decision_type) or values.type_name(decision_type),
        "reasoning": values.label(get("reasoning"), values.TEXT_LIMIT) if captures else None,
        "confidence": values.ratio(get("confidence")),
    }
    # The closing event of the execution shows the last decision if its result has no such fields.
    execution.state.decision = {name: value for name, value in outcome.items() if value is not None}
    given, scores = _scored(get("candidates"), get("scores"))
    threshold = values.real(get("threshold"))
    candidates = chosen = inputs = outputs = None
    if captures:
        candidates = values.plain(given)
        inputs, outputs = get("input_data"), get("output_data")
        inputs = _inputs(execution) if inputs is None else values.plain_dict(inputs)
        chosen = get("chosen")
        chosen = values.plain(
            _derived(outputs, candidates or [], scores or [], threshold)
            if chosen is None
            else chosen
        )
    execution.emit(
        {
            "event_type": semconv.DECISION_RECORDED,
            "agent_name": agent.name if (agent := execution.agent).kind == "agent" else None,
            "decision_id": decision_id,
            **outcome,
            "decision_category": values.label(get("category")),
            "input_data": inputs,
            "output_data": values.plain_dict(outputs),
            "decision_duration_ms": _duration(get("duration_ms"), execution.state.tick),
            "was_cached": get("was_cached") is True,
            "cache_hit_key": values.label(get("cache_hit_key")),
            "candidates": candidates,
            "candidate_scores": scores,
            "chosen": chosen,
            "threshold": threshold,
        }
    )


def _inputs(execution: context.Execution) -> dict[str, Any] | None:
    """Return the arguments of the innermost call that has some, up to the agent."""
    found: context.Execution | None = execution
    while found is not None:
        given = found.arguments
        if given is not None and (given.args or given.kwargs or given.defaults):
            data: dict[str, Any] = values.plain(dict(given.pairs()), nodes=_NODES, chars=_CHARS)
            if data:
                return data
        found = found.parent if found is not execution.agent else None
    return None


def _scored(
    candidates: object, scores: object
) -> tuple[list[Any] | None, list[float | None] | None]:
    """Return the candidates and their scores in the same order, each None if not given."""
    real, most = values.real, _MAX_CANDIDATES
    candidates, scores = _listed(candidates), _listed(scores)
    if scores is None and _are_scores(candidates):
        candidates, scores = None, candidates
    by_candidate = None
    if issubclass(type(scores), dict):
        by_candidate = dict(islice(dict.items(cast("dict[Any, Any]", scores)), most))
    if candidates is None:
        found = None if by_candidate is None else list(by_candidate)
    elif safe_access.is_sequence(candidates):
        found = safe_access.items(candidates, most)
    else:
        found = [candidates]
    if found is None:
        return None, None
    numbers: list[float | None]
    if by_candidate is not None:
        shown = {values.summary(key): real(score) for key, score in by_candidate.items()}
        numbers = [shown.get(values.summary(each)) for each in found]
    elif safe_access.is_sequence(scores):
        listed = [real(each) for each in safe_access.items(scores, len(found))]
        numbers = listed + [None] * (len(found) - len(listed))
    else:
        read = (safe_access.attributes(each, _SCORES) for each in found)
        numbers = [real(next(iter(each.values()), None)) for each in read]
    return found, numbers if any(each is not None for each in numbers) else None


def _listed(given: object) -> object:
    """Return the first items of a view of a dictionary, a range or a NumPy array, else the value."""
    kind = type(given)
    if kind is list or given is None:
        return given
    with guard.Guard("decision"):
        if issubclass(kind, _VIEWS):
            return list(islice(cast("Sequence[Any]", given), _MAX_CANDIDATES))
        array: Any = getattr(sys.modules.get("numpy"), "ndarray", None)
        if array is not None and issubclass(kind, array):
            return array.ravel(given)[:_MAX_CANDIDATES].tolist()
    return given


def _are_scores(candidates: object) -> bool:
    """Return whether candidates were given as a dictionary of their scores."""
    if not issubclass(type(candidates), dict):
        return False
    first = list(islice(dict.values(cast("dict[Any, Any]", candidates)), _MAX_CANDIDATES))
    return bool(first) and all(values.real(score) is not None for score in first)


def _offered(candidates: object) -> object:
    """Return the candidates for a tape."""
    found = _listed(candidates)
    return list(dict.keys(cast("dict[Any, Any]", found))) if _are_scores(found) else found


def _derived(
    output: object,
    candidates: list[Any],
    scores: list[float | None],
    threshold: float | None,
) -> Any:
    """Return the choice that the program did not name.

    It is the candidate in the output, else the output, else the best or only candidate.
    """
    data = values.plain(output, nodes=_NODES, chars=_CHARS)
    if data is not None:
        parts = [data, *(data.values() if isinstance(data, dict) else ())]
        return next((each for each in parts if each in candidates), data)
    ranked = [(score, -place) for place, score in enumerate(scores) if score is not None]
    if ranked:
        best, place = max(ranked)
        # Data of many candidates is cut, their scores are not.
        kept = -place < len(candidates) and (threshold is None or best >= threshold)
        return candidates[-place] if kept else None
    return candidates[0] if len(candidates) == 1 else None


class Decision:
    """Decision in progress; recorded by `close`."""

    __slots__ = ("_fields", "_tick", "_type", "decision_id")

    def __init__(self, decision_type: str, fields: dict[str, Any]) -> None:
        self.decision_id = sortable_id("dec")
        self._type = decision_type
        self._fields = dict(fields)
        self._tick = time.perf_counter_ns()

    def set(self, **fields: Unpack[DecisionFields]) -> None:
        """Set fields of the decision; later values win."""
        self._fields.update(fields)

    def recorded(self) -> tuple[str, dict[str, Any]]:
        """Return the type and the fields."""
        return self._type, self._fields

    def candidates(self, result: object) -> object:
        """Return the candidates that were set, else those of the result."""
        given = self._fields.get("candidates")
        return (
            given if given is not None else safe_access.attributes(result, _READ).get("candidates")
        )

    def close(self, result: object = None) -> None:
        """Record the decision with its result."""
        with guard.Guard("decision"):
            fields = self._fields
            if result is not None:
                fields.setdefault("output_data", result)
                for name, value in safe_access.attributes(result, _READ).items():
                    fields.setdefault(name, value)
            if fields.get("duration_ms") is None:
                fields["duration_ms"] = (time.perf_counter_ns() - self._tick) / 1e6
            _record(self.decision_id, self._type, fields)


_deciding: ContextVar[Decision | None] = ContextVar("tracereel_decision", default=None)


def current_decision() -> Decision:
    """Return the decision in progress, or a placeholder whose fields are discarded."""
    return _deciding.get() or Decision("", {})


class traced_decision:  # noqa: N801 - used as a decorator, beside functions
    """Record the decision of a function, coroutine function or `with` block, and its duration.

    The arguments are the input, the result is the output. `confidence`, `reasoning`, `chosen`,
    `candidates`, `scores`, `threshold`, `was_cached` and `cache_hit_key` are read from the result's
    keys or attributes; `current_decision().set(…)` takes precedence. Nothing is recorded if the
    function raises.
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
            TypeError: the function is a generator, which has no single result.
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

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        decision, token = entry = self._current()
        self._entered.remove(entry)
        _leave(token)
        if error is None:
            decision.close()
            _compared(*decision.recorded())

    def _current(self) -> tuple[Decision, Token[Decision | None]]:
        """Return the entry of this block; several tasks may have entered the same object."""
        current = _deciding.get()
        # A copy, because other threads may enter and leave meanwhile.
        for entry in reversed(tuple(self._entered)):
            if entry[0] is current:
                return entry
        return self._entered[-1]  # left in another context


def _forced(decision_type: str) -> tuple[bool, Any]:
    """Return whether a re-execution overrides the decision, and the result."""
    recorder = _recorder.active()
    if recorder is None or recorder.tape is None:
        return False, None
    return recorder.tape.decide(context.current_execution(), decision_type)


def _decided(decision_type: str, result: object, decision: Decision | None) -> None:
    recorder = _recorder.active()
    if recorder is not None and recorder.tape is not None:
        candidates = _offered(decision.candidates(result)) if decision is not None else None
        recorder.tape.decided(context.current_execution(), decision_type, result, candidates)


def _leave(token: Token[Decision | None]) -> None:
    try:
        _deciding.reset(token)
    except ValueError:  # a coroutine was closed in another context
        pass


def _duration(value: object, begun: int | None) -> int | None:
    """Return whole milliseconds, by default those since the start of the execution."""
    number = values.real(value)
    if number is None and begun is not None:
        number = (time.perf_counter_ns() - begun) / 1e6
    return None if number is None else values.count(round(number))
