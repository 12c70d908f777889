"""Trusted clock of a data directory: maintained by one process, followed by the others."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from tracereel_collector.runtime.clock.sources import ClockSources
from tracereel_collector.runtime.clock.state import (
    EARLIEST_NANO,
    HOLD_NANO,
    SECOND,
    ClockState,
    Dating,
    corrected,
    first_state,
    observed,
    resumed,
)
from tracereel_collector.runtime.durable import sync
from tracereel_collector.runtime.file_lock import locked

log = structlog.get_logger(__name__)

CLOCK_FILE: Final = "clock.json"
_LOCK_FILE: Final = "clock.lock"
TICK_SECONDS: Final = 1.0
SAVE_NANO: Final = 60 * SECOND
"""Maximum time between saves; a power cut may lose that much."""
HINT: Final = (
    "set the clock of the machine; if it is right, accept it with `tracereel clock --confirm`"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStatus:
    """Clock status for operators."""

    trusted: str
    wall: str
    state: str
    """`following`, `jumped` (the jump is not accepted) or `unset` (it was never plausible)."""
    jump_seconds: float
    """Wall clock minus trusted time while a jump is not accepted, else 0."""
    held_seconds: float
    corrections: int

    def document(self) -> dict[str, Any]:
        """Return the status as a JSON object."""
        shown: dict[str, Any] = {
            "state": self.state,
            "trusted": self.trusted,
            "wall": self.wall,
            "jump_seconds": self.jump_seconds,
        }
        if self.state != "following":
            shown |= {
                "held_seconds": self.held_seconds,
                "believed_after_seconds": HOLD_NANO // SECOND,
                "hint": HINT,
            }
        return shown


class ClockFile:
    """Reads and writes the state in a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / CLOCK_FILE
        self._lock = data_dir / _LOCK_FILE

    def load(self) -> ClockState | None:
        """Return the last saved state; None if missing or unreadable."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=ClockState)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, state: ClockState) -> None:
        """Replace the state durably; call it while `locked`.

        Raises:
            OSError: it cannot be written; the last state stays.
        """
        part = self.path.with_suffix(".part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, msgspec.json.encode(state))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.replace(self.path)
        sync(self.path.parent)

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock that the collector and the command share.

        Raises:
            BlockingIOError: another process holds it and `wait` is False.
        """
        self._lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(self._lock, wait=wait):
            yield


class TrustedClock:
    """Wall time that ignores jumps until accepted; thread-safe, reads need no lock.

    Only the owner process writes the state; `last_known_nano` replaces a lost one.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        is_owner: bool = False,
        last_known_nano: Callable[[], int | None] = lambda: None,
        sources: ClockSources | None = None,
    ) -> None:
        self._sources = sources or ClockSources()
        self._wall = self._sources.wall_nano
        self._boot = self._sources.boot_nano
        self._file = ClockFile(data_dir)
        self._is_owner = is_owner
        reading, saved = self._sources.read(), self._file.load()
        if saved is None:
            state = first_state(reading, last_known_nano=last_known_nano())
        else:
            state = resumed(saved, reading)
        self._state = state
        self._offset = state.offset_nano
        self._latest = state.latest_nano
        self._lock = threading.Lock()
        self._saved_at = state.boot_nano - SAVE_NANO
        self._can_save = True
        if is_owner:
            self.tick()
            if state.pending is not None:
                _log_pending(self._state)

    def unix_nano(self) -> int:
        """Return trusted time in nanoseconds."""
        state = self._state
        wall = self._wall()
        steady = state.steady_at(self._boot())
        if state.believes(wall, wall - steady):
            self._offset = wall - steady
            return wall
        return steady + self._offset

    def unix(self) -> float:
        """Return trusted time in seconds."""
        return self.unix_nano() / SECOND

    def steady_nano(self) -> int:
        """Return steady time, for time windows and ages."""
        return self._state.steady_at(self._boot())

    def latest_unix(self) -> float:
        """Return the latest trusted time so far, in seconds: it does not go back."""
        self._latest = max(self._latest, self.unix_nano())
        return self._latest / SECOND

    def dating(self) -> Dating:
        """Return the time information for retention."""
        now = self.unix_nano()
        state = self._state
        settled = state.pending is None and self._believes_now()
        return Dating(now_nano=now, is_settled=settled, redated=state.redated)

    def status(self) -> ClockStatus:
        """Return the status for operators."""
        wall, trusted, state = self._wall(), self.unix_nano(), self._state
        name = "following" if self._believes_now() else "jumped" if state.is_set else "unset"
        return ClockStatus(
            trusted=_shown(trusted),
            wall=_shown(wall),
            state=name,
            jump_seconds=0.0 if name == "following" else round((wall - trusted) / SECOND, 3),
            held_seconds=state.pending.held_nano / SECOND if state.pending else 0.0,
            corrections=state.corrections,
        )

    def tick(self) -> None:
        """Observe the wall clock and save the state (owner), or load the owner's state."""
        with self._lock:
            if not self._is_owner:
                self._adopt(self._file.load())
                return
            try:
                with self._file.locked(wait=False):
                    self._adopt(self._file.load())
                    self._observe(save=True)
                    return
            except BlockingIOError:
                pass  # a command is confirming a jump: its state is adopted at the next tick
            except OSError as error:
                self._cannot_save(error)
            self._observe(save=False)

    def confirm(self) -> bool:
        """Accept the current wall clock; return False if it is already followed.

        Raises:
            ValueError: the wall clock is before the first release, so it was never set.
            OSError: the state cannot be saved.
        """
        with self._lock, self._file.locked():
            self._adopt(self._file.load())
            reading = self._sources.read()
            if reading.wall_nano < EARLIEST_NANO:
                raise ValueError(
                    f"the wall clock says {_shown(reading.wall_nano)}; expected a time after"
                    f" {_shown(EARLIEST_NANO)}: set it first"
                )
            state = observed(self._state, reading)
            is_news = state.pending is not None or state.corrections != self._state.corrections
            if state.pending is not None:
                state = corrected(state, reading)
            state = replace(state, revision=state.revision + 1)
            self._file.save(state)
            self._take(state)
            return is_news

    def close(self) -> None:
        """Save the last state; safe to call twice."""
        if self._is_owner:
            self._saved_at = self._boot() - SAVE_NANO
            self.tick()

    def _believes_now(self) -> bool:
        state, wall = self._state, self._wall()
        return state.believes(wall, wall - state.steady_at(self._boot()))

    def _adopt(self, saved: ClockState | None) -> None:
        """Adopt a state that another process saved in this boot."""
        if saved is None or saved.boot_id != self._sources.boot_id():
            return
        if saved.revision != self._state.revision:
            self._take(saved)

    def _take(self, state: ClockState) -> None:
        # Only a correction may move it back.
        is_correction = state.corrections != self._state.corrections
        self._latest = state.latest_nano if is_correction else max(self._latest, state.latest_nano)
        self._state, self._offset = state, state.offset_nano

    def _observe(self, *, save: bool) -> None:
        before = replace(self._state, offset_nano=self._offset, latest_nano=self._latest)
        after = observed(before, self._sources.read())
        is_news = _decisions(after) != _decisions(before)
        is_due = after.boot_nano - self._saved_at >= SAVE_NANO
        if save and (is_news or is_due):
            saved = replace(after, revision=after.revision + 1)
            try:
                self._file.save(saved)
                after, self._can_save = saved, True
            except OSError as error:
                self._cannot_save(error)
            self._saved_at = after.boot_nano
        self._take(after)
        _log_change(before, after)

    def _cannot_save(self, error: OSError) -> None:
        if self._can_save:
            log.warning("clock_not_saved", file=str(self._file.path), reason=str(error))
        self._can_save = False


def _decisions(state: ClockState) -> tuple[object, ...]:
    """Return the fields whose changes must be saved at once."""
    return state.is_set, state.pending is None, state.reference_nano, state.corrections


def _log_change(before: ClockState, after: ClockState) -> None:
    trusted = _shown(after.steady_nano + after.offset_nano)
    if after.corrections != before.corrections:
        log.warning("clock_corrected", trusted=trusted)
    elif before.pending is None and after.pending is not None:
        _log_pending(after)
    elif before.pending is not None and after.pending is None:
        log.warning("clock_jump_over", trusted=trusted)


def _log_pending(state: ClockState) -> None:
    if state.pending is not None:
        jump = (state.pending.lead_nano - state.offset_nano) / SECOND
        log.warning(
            "clock_jump_not_believed",
            jump_seconds=round(jump, 3),
            trusted=_shown(state.steady_nano + state.offset_nano),
            hint=HINT,
        )


def _shown(unix_nano: int) -> str:
    moment = _EPOCH + timedelta(microseconds=unix_nano // 1_000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
