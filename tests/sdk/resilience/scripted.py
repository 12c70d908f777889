"""Function that follows a script, call by call."""

from typing import Any


class Scripted:
    """Callable that raises the given exceptions and returns the given values, in turn."""

    def __init__(self, *outcomes: Any) -> None:
        self._outcomes = list(outcomes)
        self.calls = 0

    def __call__(self, *_args: object, **_kwargs: object) -> Any:
        outcome = self._outcomes[self.calls]
        self.calls += 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome
