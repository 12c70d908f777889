"""Trusted clock: wall time that ignores a jump until it has lasted or is confirmed."""

from tracereel_collector.runtime.clock.state import Dating, RedatedPeriod
from tracereel_collector.runtime.clock.trusted import ClockStatus, TrustedClock

__all__ = ["ClockStatus", "Dating", "RedatedPeriod", "TrustedClock"]
