"""Re-execution of recorded runs: the code runs again, calls are served from a tape.

`boundary` records and serves the calls of client wrappers. `register` and `declare` add types to
the codec. Names are imported at first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracereel.errors import NetworkBlockedError, NotAllowedError
    from tracereel.tape.classes import declare
    from tracereel.tape.codec import Opaque, register
    from tracereel.tape.divergence import Divergence, DivergenceError, TapeEndedError
    from tracereel.tape.external_calls import boundary
    from tracereel.tape.format import Tape, TapeError, load, parse
    from tracereel.tape.overrides import Override
    from tracereel.tape.replaying import Replaying, fork, replay
    from tracereel.tape.report import Reason, Report, Verdict

__all__ = [
    "Divergence",
    "DivergenceError",
    "NetworkBlockedError",
    "NotAllowedError",
    "Opaque",
    "Override",
    "Reason",
    "Replaying",
    "Report",
    "Tape",
    "TapeEndedError",
    "TapeError",
    "Verdict",
    "boundary",
    "declare",
    "fork",
    "load",
    "parse",
    "register",
    "replay",
]

_HOMES: Final = {
    "tracereel.errors": ("NetworkBlockedError", "NotAllowedError"),
    "tracereel.tape.classes": ("declare",),
    "tracereel.tape.codec": ("Opaque", "register"),
    "tracereel.tape.divergence": ("Divergence", "DivergenceError", "TapeEndedError"),
    "tracereel.tape.external_calls": ("boundary",),
    "tracereel.tape.format": ("Tape", "TapeError", "load", "parse"),
    "tracereel.tape.overrides": ("Override",),
    "tracereel.tape.replaying": ("Replaying", "fork", "replay"),
    "tracereel.tape.report": ("Reason", "Report", "Verdict"),
}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'tracereel.tape' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
