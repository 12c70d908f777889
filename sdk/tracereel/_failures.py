"""What an exception says about a failure: type, message, code, category, where it was raised."""

import traceback
from dataclasses import dataclass
from typing import Final

from tracereel import _values
from tracereel.semconv import CODE_TIMEOUT

MESSAGE_LIMIT: Final = 4096
MAX_FRAMES: Final = 32

TRANSIENT: Final = "transient"
VALIDATION: Final = "validation"

CATEGORIES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (TimeoutError, TRANSIENT),
    (ConnectionError, TRANSIENT),
    (ValueError, VALIDATION),  # pydantic's ValidationError and json's JSONDecodeError among them
    (TypeError, VALIDATION),
)
"""The first class that matches decides; no match, no category."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception as the contract describes it."""

    error_type: str
    error_message: str
    error_code: str | None
    error_category: str | None


def describe(error: BaseException) -> Failure:
    """Read an exception; its own code may raise, that is part of what is told."""
    return Failure(
        error_type=_values.type_name(error),
        error_message=_message(error),
        error_code=_code(error),
        error_category=next(
            (category for kind, category in CATEGORIES if isinstance(error, kind)), None
        ),
    )


def stack_trace(error: BaseException) -> str | None:
    """The traceback as text: the innermost frames, bounded."""
    try:
        lines = traceback.TracebackException(
            type(error), error, error.__traceback__, limit=-MAX_FRAMES, compact=True
        ).format()
        kept: list[str] = []
        left = _values.TEXT_LIMIT
        for line in lines:
            kept.append(line)
            left -= len(line)
            if left <= 0:
                break
        return _values.text("".join(kept))
    except Exception:  # noqa: BLE001 - sources, reprs and notes are the user's
        return None


def _message(error: BaseException) -> str:
    try:
        return _values.text(str(error), MESSAGE_LIMIT)
    except Exception:  # noqa: BLE001 - an exception whose text raises
        return "<no text: str() of the exception raised>"


def _code(error: BaseException) -> str | None:
    try:
        code = getattr(error, "code", None)
    except Exception:  # noqa: BLE001 - a property of the user's
        code = None
    if issubclass(type(code), str):
        return _values.label(code)
    return CODE_TIMEOUT if isinstance(error, TimeoutError) else None
