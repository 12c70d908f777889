"""A function that does what a list tells it, call after call."""

from typing import Any


class Scripted:
    """Raises the exceptions and returns the values it was given, in turn."""

    def __init__(self, *outcomes: Any) -> None:
        self._outcomes = list(outcomes)
        self.calls = 0

    def __call__(self, *_args: object, **_kwargs: object) -> Any:
        outcome = self._outcomes[self.calls]
        self.calls += 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome
