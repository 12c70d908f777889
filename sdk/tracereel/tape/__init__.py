"""Re-execution of recorded runs: the code runs again, calls are served from a tape.

`boundary` records and serves the calls of client wrappers. `register` and `declare` add types to
the codec. Names are imported at first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracereel.tape.classes import declare
    from tracereel.tape.codec import Opaque, register
    from tracereel.tape.divergence import (
        Divergence,
        DivergenceError,
        NotAllowedError,
        Report,
        TapeEndedError,
    )
    from tracereel.tape.external_calls import boundary
    from tracereel.tape.format import Tape, TapeError, load
    from tracereel.tape.guards import NetworkBlockedError
    from tracereel.tape.overrides import Override
    from tracereel.tape.replaying import Replaying, fork, replay

__all__ = [
    "Divergence",
    "DivergenceError",
    "NetworkBlockedError",
    "NotAllowedError",
    "Opaque",
    "Override",
    "Replaying",
    "Report",
    "Tape",
    "TapeEndedError",
    "TapeError",
    "boundary",
    "declare",
    "fork",
    "load",
    "register",
    "replay",
]

_HOMES: Final = {
    "classes": ("declare",),
    "codec": ("Opaque", "register"),
    "divergence": (
        *("Divergence", "DivergenceError", "NotAllowedError", "Report", "TapeEndedError"),
    ),
    "external_calls": ("boundary",),
    "format": ("Tape", "TapeError", "load"),
    "guards": ("NetworkBlockedError",),
    "overrides": ("Override",),
    "replaying": ("Replaying", "fork", "replay"),
}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'tracereel.tape' has no attribute {name!r}")
    value = getattr(import_module(f"tracereel.tape.{home}"), name)
    globals()[name] = value
    return value
