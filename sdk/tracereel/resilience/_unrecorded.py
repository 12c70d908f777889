"""Retries and fallbacks where nothing is recorded: the same decisions, and nothing besides."""

import asyncio
from types import TracebackType
from typing import Any, Self

from tracereel import _recorder, _values
from tracereel.resilience._functions import Function, Subject, asked, error_text
from tracereel.resilience._policy import NEVER, Policy
from tracereel.resilience._run import Run
from tracereel.resilience._takeover import Plan, Takeover, add_note


class _Unrecorded:
    """A context in which nothing has to be done before or after."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        return None


class UnrecordedRun(_Unrecorded):
    """The attempts of one call, as `Run` has them."""

    __slots__ = ("_policy", "attempt")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.attempt = 0

    def begin(self) -> None:
        """An attempt starts."""
        self.attempt += 1

    def limit(self, deadline: asyncio.Timeout) -> None:
        """The attempt will be stopped there."""

    def failed(self, error: BaseException) -> float | None:
        """The attempt has raised; null: so does the call."""
        return self._policy.after_error(error, self.attempt).delay

    def returned(self, result: object) -> float | None:
        """The attempt has returned; null: so does the call."""
        policy = self._policy
        if policy.min_confidence is None or policy.confidence_of is None:
            return None
        confidence = _values.real(asked("confidence_of", policy.confidence_of, result))
        verdict = policy.after_result(confidence, self.attempt)
        return verdict.delay if verdict is not None else None


class UnrecordedTakeover(_Unrecorded):
    """A call of a primary with fallbacks, as `Takeover` has it."""

    __slots__ = ("_plan", "_target", "failure")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._target: Function | None = None
        self.failure: BaseException | None = None

    def begin(self, target: Function | None = None) -> None:
        """The primary starts, or a fallback of it."""
        self._target = target

    def primary_failed(self, error: BaseException) -> bool:
        """The primary has raised; whether fallbacks are for that."""
        if not self._plan.covers(error):
            return False
        self.failure = error
        return True

    def primary_returned(self, result: object) -> bool:
        """The primary has returned; whether fallbacks are wanted nevertheless."""
        plan = self._plan
        if plan.when is None and plan.min_confidence is None:
            return False
        confidence: Any = None
        if plan.confidence_of is not None and result is not None:
            confidence = _values.real(asked("confidence_of", plan.confidence_of, result))
        return plan.objection(result, confidence) is not None

    def fallback_failed(self, error: BaseException) -> bool:
        """A fallback has raised; whether the next one is called."""
        if isinstance(error, NEVER):
            return False
        add_note(self.failure, self._target, error_text(error))
        return True

    def fallback_returned(self, result: object) -> None:
        """A fallback has returned."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        # It holds the frame of the caller, and so this, by a traceback.
        self.failure = None


def run_of(policy: Policy, subject: Subject) -> Run | UnrecordedRun:
    """What goes along with the attempts of one call."""
    return UnrecordedRun(policy) if _recorder.active() is None else Run(policy, subject)


def takeover_of(plan: Plan, subject: Subject) -> Takeover | UnrecordedTakeover:
    """What goes along with one call of a primary and its fallbacks."""
    return UnrecordedTakeover(plan) if _recorder.active() is None else Takeover(plan, subject)
