"""Re-execution: a recorded run is the tape, and the program's own code runs again against it.

`boundary` is the seam for wrappers of clients; `register` and `declare` teach the codec more types.
Names are loaded at first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracereel._recorder import Recorder
    from tracereel.config import Config
    from tracereel.tape.classes import declare
    from tracereel.tape.codec import Opaque, register
    from tracereel.tape.divergence import (
        Divergence,
        DivergenceError,
        NotAllowedError,
        Report,
        TapeEndedError,
    )
    from tracereel.tape.format import Tape, TapeError, load
    from tracereel.tape.guards import NetworkBlockedError
    from tracereel.tape.overrides import Override
    from tracereel.tape.replaying import Replaying, fork, replay
    from tracereel.tape.taped import Session, boundary

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
    "choice_of",
    "declare",
    "fork",
    "load",
    "recordings_of",
    "register",
    "replay",
]

_HOMES: Final = {
    "Divergence": "divergence",
    "DivergenceError": "divergence",
    "NetworkBlockedError": "guards",
    "NotAllowedError": "divergence",
    "Opaque": "codec",
    "Override": "overrides",
    "Replaying": "replaying",
    "Report": "divergence",
    "Tape": "format",
    "TapeEndedError": "divergence",
    "TapeError": "format",
    "boundary": "taped",
    "declare": "classes",
    "fork": "replaying",
    "load": "format",
    "register": "codec",
    "replay": "replaying",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tracereel.tape' has no attribute {name!r}")
    value = getattr(import_module(f"tracereel.tape.{home}"), name)
    globals()[name] = value
    return value


def choice_of(config: "Config") -> dict[str, Any]:
    """Fields for the events of runs of which only some have a tape: why one may have none."""
    if config.record == "sampled":
        return {"recording": config.record, "record_rate": config.record_rate}
    return {"recording": config.record} if config.record == "errors" else {}


def recordings_of(recorder: "Recorder") -> "Session":
    """What records the runs of a recorder, as its configuration asks."""
    from tracereel.tape.gate import Gate
    from tracereel.tape.header import Settings
    from tracereel.tape.recording import Recordings

    config = recorder.config
    gate = Gate() if config.record_exact else None
    return Recordings(Settings(recorder, config.record, config.record_rate, gate))
