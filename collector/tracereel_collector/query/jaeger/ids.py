"""Trace ids as Jaeger's users write them, and as Jaeger shows them."""

import base64
import binascii
import re

from tracereel.events import TRACE_ID_PATTERN
from tracereel_collector.errors import BadRequestError

_HEX = re.compile(r"[0-9a-fA-F]{1,32}")
_RUN = re.compile(TRACE_ID_PATTERN)
_LONGEST_BASE64 = 24


def otel_id(given: str) -> str | None:
    """The 32 hexadecimal digits that an id stands for; None where it can only be a run's own name.

    Leading zeros may be missing; since Jaeger 2.20 it may also be base64, of either alphabet.
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
    """An id in any form that is known here.

    Raises:
        BadRequestError: it is none.
    """
    if otel_id(given) is None and not _RUN.fullmatch(given):
        raise BadRequestError(
            f"trace id {given[:140]!r} is not valid; expected up to 32 hexadecimal digits, 16 bytes"
            " in base64, or the trace_id of a run"
        )
    return given


def shown(trace_id: str) -> str:
    """As the legacy API shows it: 16 digits where the upper half is zero."""
    return trace_id[16:] if len(trace_id) == 32 and not trace_id[:16].strip("0") else trace_id
