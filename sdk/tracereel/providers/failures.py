"""Reader of provider errors: response bodies, stream frames and exceptions."""

from typing import Any

from tracereel.providers.base import Failure
from tracereel.providers.reading import fields_text, get, mapping, text


def read_failure(value: Any) -> Failure | None:
    """Read the failure of an error body (`{"error": {…}}`), or return `None`."""
    body = mapping(value)
    error = body.get("error")
    if error is None and body.get("type") == "error":
        error = {key: each for key, each in body.items() if key != "type"}
    if error is None:
        return None
    if isinstance(error, str):
        return Failure(type=text(body.get("type")) or "error", message=error)
    if not isinstance(error, dict):
        return Failure(type="error", message=fields_text(error))
    code = error.get("code")
    kind = text(error.get("type")) or text(error.get("status"))
    return Failure(
        type=kind or (code if isinstance(code, str) and code else "error"),
        message=text(error.get("message")) or "",
        code=None if code is None else fields_text(code),
    )


def failure_of(error: BaseException | Failure | str) -> Failure:
    """Convert an exception or message to a failure."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, str):
        return Failure(type="error", message=error)
    code = get(error, "code", "status_code")
    return Failure(
        type=type(error).__name__,
        message=_message(error),
        code=None if code is None else fields_text(code),
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)[:2_000]
    except Exception:  # noqa: BLE001 - its `__str__` may raise
        return ""
