"""Trace ids: parsing of the forms Jaeger accepts, and display."""

import base64
import binascii
import re

from tracereel.events import TRACE_ID_PATTERN
from tracereel_collector.errors import BadRequestError

_HEX = re.compile(r"[0-9a-fA-F]{1,32}")
_RUN = re.compile(TRACE_ID_PATTERN)
_LONGEST_BASE64 = 24


def otel_id(given: str) -> str | None:
    """Return an id as 32 hexadecimal digits; `None` for ids of runs.

    Leading zeros are optional. Base64 of either alphabet is accepted, as in Jaeger since 2.20.
    """
    if _HEX.fullmatch(given):
        return given.lower().rjust(32, "0")
    if len(given) <= _LONGEST_BASE64:
        padded = given.rstrip("=") + "=" * (-len(given.rstrip("=")) % 4)
        try:
            data = base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(data) in (8, 16):
            return data.hex().rjust(32, "0")
    return None


def check_id(given: str) -> str:
    """Return an id of any accepted form.

    Raises:
        BadRequestError: it has none of these forms.
    """
    if otel_id(given) is None and not _RUN.fullmatch(given):
        raise BadRequestError(
            f"trace id {given[:140]!r} is not valid; expected up to 32 hexadecimal digits, 16 bytes"
            " in base64, or the trace_id of a run"
        )
    return given


def shown(trace_id: str) -> str:
    """Shorten an id with a zero upper half to 16 digits, as the legacy API does."""
    return trace_id[16:] if len(trace_id) == 32 and not trace_id[:16].strip("0") else trace_id
