"""State of the trusted clock and its transitions, as pure functions.

Two scales, both in nanoseconds since 1970. `steady` advances with the boot clock alone and never
steps: time windows are measured with it. Trusted time is `steady + offset`; the offset follows the
wall clock while that stays within `JUMP_NANO` of the reference, which moves once a day of uptime.
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

SECOND: Final = 1_000_000_000
DAY: Final = 86_400 * SECOND
JUMP_NANO: Final = 2 * DAY
HOLD_NANO: Final = DAY
"""Uptime for which a jump must last to be accepted."""
EARLIEST_NANO: Final = 1_767_225_600 * SECOND
"""2026-01-01, before the first release: an earlier wall clock was never set."""
MAX_REDATED: Final = 32
_OBSERVED_NANO: Final = 60 * SECOND
"""Maximum uptime counted per observation, since a suspended machine observes nothing."""
_MARGIN_NANO: Final = 60 * SECOND
"""Margin for other processes, which adopt a correction a moment later."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJump:
    """Jump of the wall clock that is not accepted yet."""

    lead_nano: int
    """Wall clock minus steady time."""
    since_nano: int
    """Trusted time when the jump was first observed."""
    held_nano: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedatedPeriod:
    """Period whose rows were dated `shift_nano` too early, before a real jump was accepted."""

    start_nano: int
    end_nano: int
    shift_nano: int

    def keeps(self, first_kept: date) -> tuple[date, date] | None:
        """Return the first and last day to keep although they look expired; None if expired."""
        if day_of(self.end_nano + self.shift_nano) < first_kept:
            return None
        return day_of(self.start_nano), day_of(self.end_nano)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dating:
    """Time information for retention."""

    now_nano: int
    is_settled: bool = True
    """False while a jump is pending: no rows are deleted then."""
    redated: tuple[RedatedPeriod, ...] = ()

    @property
    def today(self) -> date:
        """Current day in UTC."""
        return day_of(self.now_nano)

    def kept_days(self, first_kept: date) -> list[tuple[date, date]]:
        """Return ranges of days before `first_kept` that must be kept nevertheless."""
        return [days for each in self.redated if (days := each.keeps(first_kept)) is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockState:
    """Saved state of the clock; `steady_nano` was the steady time at `boot_nano` of a boot."""

    boot_id: str
    boot_nano: int
    steady_nano: int
    offset_nano: int = 0
    reference_nano: int = 0
    reference_at_nano: int = 0
    is_set: bool = True
    """False until the wall clock is first plausible."""
    latest_nano: int = 0
    """Latest trusted time: expired keys stay expired when the clock is set back."""
    pending: PendingJump | None = None
    redated: tuple[RedatedPeriod, ...] = ()
    corrections: int = 0
    """Number of jumps that were accepted."""
    revision: int = 0

    def steady_at(self, boot_nano: int) -> int:
        """Return the steady time at a reading of the boot clock."""
        return self.steady_nano + boot_nano - self.boot_nano

    def believes(self, wall_nano: int, lead_nano: int) -> bool:
        """Return whether the wall clock is followed."""
        # One second of tolerance: both clocks cannot be read at the same instant.
        return (
            self.is_set
            and abs(lead_nano - self.reference_nano) <= JUMP_NANO + SECOND
            and wall_nano >= EARLIEST_NANO
        )

    def moved_to(self, boot_nano: int) -> "ClockState":
        """Return the same state relative to another reading of the boot clock."""
        return replace(self, boot_nano=boot_nano, steady_nano=self.steady_at(boot_nano))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """The machine's clocks, read at one moment."""

    wall_nano: int
    boot_nano: int
    boot_id: str


def first_state(reading: ClockReading, *, last_known_nano: int | None = None) -> ClockState:
    """Return the initial state; `last_known_nano` is the time of the newest record, if any."""
    if last_known_nano is not None and last_known_nano >= EARLIEST_NANO:
        begun = ClockState(
            boot_id="",
            boot_nano=reading.boot_nano,
            steady_nano=last_known_nano,
            latest_nano=last_known_nano,
        )
        return resumed(begun, reading)
    is_set = reading.wall_nano >= EARLIEST_NANO
    start = reading.wall_nano if is_set else EARLIEST_NANO
    return ClockState(
        boot_id=reading.boot_id,
        boot_nano=reading.boot_nano,
        steady_nano=start,
        reference_at_nano=start,
        is_set=is_set,
        latest_nano=start,
    )


def resumed(state: ClockState, reading: ClockReading) -> ClockState:
    """Return the state after a restart; a reboot resets the boot clock."""
    is_same_boot = state.boot_id != "" and state.boot_id == reading.boot_id
    if is_same_boot and reading.boot_nano >= state.boot_nano:
        return state
    gap = reading.wall_nano - (state.steady_nano + state.offset_nano)
    was_off = gap if state.is_set and 0 <= gap <= JUMP_NANO else 0
    steady = state.steady_nano + was_off
    pending, lead = state.pending, reading.wall_nano - steady
    if pending is not None and 0 <= lead - pending.lead_nano <= JUMP_NANO:
        # The same jump, observed again after the machine was off.
        pending = replace(pending, lead_nano=lead)
    return replace(
        state,
        boot_id=reading.boot_id,
        boot_nano=reading.boot_nano,
        steady_nano=steady,
        reference_nano=state.offset_nano,
        reference_at_nano=steady,
        pending=pending,
    )


def observed(state: ClockState, reading: ClockReading) -> ClockState:
    """Return the state after an observation, moved to its time."""
    steady = state.steady_at(reading.boot_nano)
    elapsed = min(max(0, reading.boot_nano - state.boot_nano), _OBSERVED_NANO)
    state = state.moved_to(reading.boot_nano)
    lead = reading.wall_nano - steady
    if not state.is_set and reading.wall_nano >= EARLIEST_NANO:
        return corrected(state, reading)
    if state.believes(reading.wall_nano, lead):
        state = replace(
            state,
            offset_nano=lead,
            latest_nano=max(state.latest_nano, reading.wall_nano),
            pending=None,
        )
        if steady - state.reference_at_nano >= HOLD_NANO:
            state = replace(state, reference_nano=lead, reference_at_nano=steady)
        return state
    trusted = steady + state.offset_nano
    state = replace(state, latest_nano=max(state.latest_nano, trusted))
    known = state.pending
    since = trusted if known is None else known.since_nano
    if known is None or abs(lead - known.lead_nano) > JUMP_NANO:
        return replace(state, pending=PendingJump(lead_nano=lead, since_nano=since))
    pending = replace(known, held_nano=known.held_nano + elapsed)
    state = replace(state, pending=pending)
    if pending.held_nano >= HOLD_NANO and reading.wall_nano >= EARLIEST_NANO:
        return corrected(state, reading)
    return state


def corrected(state: ClockState, reading: ClockReading) -> ClockState:
    """Return a state that accepts the current wall clock."""
    state = state.moved_to(reading.boot_nano)
    trusted = state.steady_nano + state.offset_nano
    shift = reading.wall_nano - trusted
    redated = state.redated
    if shift > 0:
        since = trusted if state.pending is None else state.pending.since_nano
        start = since if state.is_set else min(since, EARLIEST_NANO)
        redated += (
            RedatedPeriod(
                start_nano=start - _MARGIN_NANO,
                end_nano=trusted + _MARGIN_NANO,
                shift_nano=shift,
            ),
        )
    lead = reading.wall_nano - state.steady_nano
    return replace(
        state,
        offset_nano=lead,
        reference_nano=lead,
        reference_at_nano=state.steady_nano,
        is_set=True,
        # After an accepted step back, new keys must be able to expire before the old latest time.
        latest_nano=reading.wall_nano if shift < 0 else max(state.latest_nano, reading.wall_nano),
        pending=None,
        redated=redated[-MAX_REDATED:],
        corrections=state.corrections + 1,
    )


def day_of(unix_nano: int) -> date:
    """Return the day in UTC."""
    return (_EPOCH + timedelta(seconds=unix_nano // SECOND)).date()
