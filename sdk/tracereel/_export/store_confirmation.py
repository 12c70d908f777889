"""Question to the collector whether a delivered event is in its store."""

from typing import Final

import msgspec

from tracereel._export.collector_connection import CollectorConnection
from tracereel._export.http_client import HTTP_ERRORS
from tracereel._export.sender import PATH
from tracereel.config import Config

MAX_WAIT: Final = 60.0
"""Longest time that a collector waits for its store."""
_HEADERS: Final = {"content-type": "application/json"}


def confirm_stored(config: Config, body: bytes, timeout: float) -> bool:
    """Return whether an event that the collector has accepted is stored within the timeout.

    The event is sent again: the collector recognises it as a duplicate, and waits for its store.
    """
    if timeout <= 0:
        return False
    seconds = min(timeout, MAX_WAIT)
    connection = CollectorConnection(config, timeout=seconds)
    try:
        path = f"{PATH}?wait=stored&timeout={seconds:.3f}"
        response = connection.post(path, body, _HEADERS, timeout=seconds)
        answer = msgspec.json.decode(response.body) if response.status == 200 else None
    except (*HTTP_ERRORS, msgspec.DecodeError, RecursionError):
        return False
    finally:
        connection.close()
    return isinstance(answer, dict) and answer.get("status") == "stored"
