"""What an emitter says of itself between events: the one definition for the SDK and the collector."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

State = Literal["alive", "ended", "recovered"]

_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=256)]
_Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """How far an emitter has come; the latest one counts.

    `alive` and `ended` are the emitter's own words; `recovered` are those of a later process that has
    shipped what a dead one left on disk, so that `recorded` is then its last number.
    """

    emitter_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    state: State
    sent_at: datetime
    recorded: _Number
    """The highest `emitter_seq` given out."""
    delivered: _Number = 0
    """Events the collector has acknowledged."""
    rejected: _Number = 0
    """Numbered events the collector has refused: they are not missing."""
    spooled: _Number = 0
    """Events that wait."""
    dropped: Annotated[dict[_Reason, _Number], msgspec.Meta(max_length=64)] = {}
    """Events that were never numbered, by reason."""
    interval_seconds: Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)] = 15.0
    """When to expect the next one."""
    started_at: datetime | None = None
    service: _Text | None = None
    host: _Text | None = None
    pid: _Number | None = None
    sdk_version: _Text | None = None
