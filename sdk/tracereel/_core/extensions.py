"""Optional parts that the recorder loads by name.

Tapes depend on the recorder, and the span exporter needs OpenTelemetry's SDK, which is slow to
import. Both are imported only if the configuration needs them.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

TAPE_RECORDING: Final = "tracereel.tape.recording"
SPAN_EXPORTER: Final = "tracereel._export.span_exporter"

before_flush: Final[list[Callable[[], None]]] = []
"""Callbacks at the start of every flush; tapes write their buffered parts."""


def load(module: str) -> Any:
    """Import one of these modules."""
    return import_module(module)
