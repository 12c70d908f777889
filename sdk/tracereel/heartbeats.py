"""Heartbeat message of an emitter, shared by the SDK and the collector."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

State = Literal["alive", "ended", "recovered"]

_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=256)]
_Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an emitter; the latest heartbeat is valid.

    The emitter itself sends `alive` and `ended`. A later process sends `recovered` after it has shipped
    the spool of a dead emitter; `recorded` is then the emitter's last number.
    """

    emitter_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    state: State
    sent_at: datetime
    recorded: _Number
    """Highest assigned `emitter_seq`."""
    delivered: _Number = 0
    """Number of events that the collector acknowledged."""
    rejected: _Number = 0
    """Numbered events that the collector rejected; they do not count as missing."""
    spooled: _Number = 0
    """Number of events that wait for delivery."""
    dropped: Annotated[dict[_Reason, _Number], msgspec.Meta(max_length=64)] = {}
    """Events dropped before they were numbered, by reason."""
    interval_seconds: Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)] = 15.0
    """Seconds until the next heartbeat."""
    started_at: datetime | None = None
    service: _Text | None = None
    host: _Text | None = None
    pid: _Number | None = None
    sdk_version: _Text | None = None
