"""Errors in place of answers: bodies, frames and exceptions of every provider, as failures."""

from typing import Any

from tracereel.providers.base import Failure
from tracereel.providers.reading import fields_text, get, mapping, text


def read_failure(value: Any) -> Failure | None:
    """The failure in an error body (`{"error": {…}}` of all providers), or null."""
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
    """The failure that an exception, or a sentence, stands for."""
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
    except Exception:  # noqa: BLE001 - an exception that cannot be told
        return ""
