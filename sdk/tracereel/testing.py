"""Test utilities: events in memory, a step clock, fixed ids, assertions.

    from tracereel.testing import EventRecorder, assert_event

    with EventRecorder() as events:
        my_agent("a prompt")
    assert_event(events, "agent.execution.completed", agent_name="my_agent")

With pytest, the fixture `recorded_events` is such a recorder. No file is written, nothing is sent.
"""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet

import msgspec
from opentelemetry.trace import TracerProvider

from tracereel import _testing_patches
from tracereel import config as _config
from tracereel._core import listeners, recorder
from tracereel._core.recorder import Recorder
from tracereel._core.run_state import Emitted
from tracereel._export.shipper import FlushResult
from tracereel._export.trace_state import TraceState
from tracereel._redact.rules import Redaction
from tracereel._testing_patches import StepClock

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = [
    "EventRecorder",
    "MockEventCollector",
    "StepClock",
    "assert_event",
    "assert_no_event",
    "assert_order",
    "events_of",
]

Event = dict[str, Any]

_NOWHERE: Final = Path("/nonexistent/tracereel")
_SHOWN: Final = 30


class _MemoryRecorder(Recorder):
    """Recorder that keeps events in memory, in the form that the collector would receive."""

    def __init__(self, config: _config.Config, **wiring: Any) -> None:
        super().__init__(config, **wiring)
        self.events: list[Event] = []
        self._write_lock = threading.RLock()

    def _store(
        self, events: list[Event], trace: TraceState | None, closes_run: bool | None
    ) -> bool:
        for event in events[:-1]:
            self._store_one(event, trace, False)
        self._store_one(events[-1], trace, closes_run)
        return True

    def whereabouts(self, event: Event, *, is_spooled: bool, stored_within: float) -> Emitted:
        """Return that an event is stored if it was to be: there is no store to wait for."""
        if is_spooled and stored_within > 0:
            return "stored"
        return super().whereabouts(event, is_spooled=is_spooled, stored_within=0)

    def _store_one(self, event: Event, trace: TraceState | None, closes_run: bool | None) -> None:
        # Encoded and decoded: tests see what would be sent, and later changes have no effect.
        whole: Event = msgspec.json.decode(b"".join(self.content.line(event)))
        with self._write_lock:
            whole["emitter_id"] = emitter = "emt_testing"
            whole["emitter_seq"] = len(self.events) + 1
            if trace is not None:
                if trace.emitter_id != emitter:
                    trace.emitter_id, trace.recorded = emitter, 0
                trace.recorded += 1
                whole["trace_seq"] = trace.recorded
                trace.is_closed = trace.is_closed if closes_run is None else closes_run
                if trace.is_closed:
                    whole["trace_event_count"] = trace.recorded
            self.events.append(whole)
        self.metrics.count_events("recorded")

    def flush(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        del timeout, at_exit
        with self._counts_lock:
            held = self._sampler.held_events if self._sampler is not None else 0
            return FlushResult(len(self.events), 0, self._dropped, held)

    def close(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        self.closed = True
        if self._sampler is not None:
            self._sampler.drain()
        return self.flush(timeout, at_exit=at_exit)

    def successor(self) -> Recorder:
        """Return a recorder with separate memory for a forked child."""
        self.closed = True
        return _MemoryRecorder(self.config, **self._wiring)


_running: "WeakSet[EventRecorder]" = WeakSet()


class EventRecorder:
    """In-memory recorder of all events of this process, from `start` to `stop` or in a `with` block.

    It replaces the configured recorder and restores it afterwards. Iterate over it, or read `events`, for
    the recorded events in order.

    Args:
        clock: clock of the SDK; a `StepClock` makes timestamps and durations repeatable.
        fixed_ids: use counters instead of random ids, so that two runs have the same ids.
        capture_content, redaction, sample_rate: as for `configure`.
        registry: Prometheus registry for the metrics; default is a new private one.
        tracer_provider: provider for spans; as for `configure`.
    """

    def __init__(
        self,
        *,
        clock: StepClock | None = None,
        fixed_ids: bool = False,
        service: str = "tests",
        capture_content: bool = True,
        redaction: Redaction | bool = True,
        sample_rate: float = 1.0,
        registry: "CollectorRegistry | None" = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        if registry is None:
            from prometheus_client import CollectorRegistry

            registry = CollectorRegistry()
        self._settings: dict[str, Any] = {
            "service": service,
            "capture_content": capture_content,
            "redaction": redaction,
            "sample_rate": sample_rate,
            "other_spans": False,
            # Never written to; it does not exist, so that a mistake would be noticed.
            "spool_dir": _NOWHERE,
        }
        self._wiring = {"registry": registry, "tracer_provider": tracer_provider}
        self._patches = _testing_patches.TestingPatches(clock, fixed_ids=fixed_ids)
        self._recorder: _MemoryRecorder | None = None
        self.replaced: Any = None
        """Recorder that is active again after this one."""
        self._active = False

    def start(self) -> "EventRecorder":
        """Start recording, with no events."""
        if self._active:
            raise RuntimeError("this EventRecorder is recording already")
        self._patches.apply()
        self._recorder = _MemoryRecorder(_config.load({}, **self._settings), **self._wiring)
        self.replaced, recorder._active = recorder._active, self._recorder  # noqa: SLF001
        self._active = True
        _running.add(self)
        return self

    def stop(self) -> None:
        """Stop recording; the events stay readable. Safe to call again."""
        if not self._active or self._recorder is None:
            return
        self._active = False
        _running.discard(self)
        self._recorder.close(0.0)
        later = [each for each in _running if each.replaced is self._recorder]
        if later:
            later[0].replaced = self.replaced
        else:
            recorder._active = self.replaced  # noqa: SLF001
        self._patches.undo()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def events(self) -> list[Event]:
        """Events recorded so far."""
        return list(self._recorder.events) if self._recorder is not None else []

    def get_events(self, event_type: str | None = None) -> list[Event]:
        """Return the events recorded so far, optionally of one type."""
        return self.events if event_type is None else events_of(self.events, event_type)

    def clear(self) -> None:
        """Remove the events recorded so far; `emitter_seq` restarts at 1."""
        if self._recorder is not None:
            self._recorder.events.clear()

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)


class MockEventCollector(EventRecorder):
    """Recorder that starts when it is made, to be passed to an agent as `event_collector`.

    It has the events of the agents that carry it: methods of an object with the attribute
    `event_collector`, or calls with that argument. If none does, it has all events of the process.
    It stops at the end of the test (with pytest), with `stop`, or when it is no longer referenced.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._injected: list[Event] = []
        listeners.injectable.add(self)
        self.start()

    def __call__(self, event: Event) -> None:
        """Keep an event of an agent that carries this collector."""
        self._injected.append(event)

    def stop(self) -> None:
        """Stop recording; the events stay readable. Safe to call again."""
        listeners.injectable.discard(self)
        super().stop()

    def __enter__(self) -> Self:
        return self

    def __del__(self) -> None:
        if hasattr(self, "_injected"):  # made completely
            self.stop()

    @property
    def events(self) -> list[Event]:
        """Events of the agents that carry this collector, else of the process."""
        return list(self._injected) or super().events

    def clear(self) -> None:
        """Remove the events recorded so far."""
        self._injected.clear()
        super().clear()


def stop_collectors() -> None:
    """Stop every `MockEventCollector` that is still recording."""
    for collector in list(listeners.injectable):
        collector.stop()


def events_of(events: Iterable[Event], event_type: str) -> list[Event]:
    """Return the events of one type in order; `agent.execution.*` matches a prefix."""
    if event_type.endswith("*"):
        return [event for event in events if event["event_type"].startswith(event_type[:-1])]
    return [event for event in events if event["event_type"] == event_type]


def assert_event(events: Iterable[Event], event_type: str, /, **fields: Any) -> Event:
    """Assert that an event of this type has these fields; return the first match.

    Values are compared with `==` (so `pytest.approx` works); `...` matches any value except `None`.

    Raises:
        AssertionError: no event matches; the message shows the differences of the closest one.
    """
    __tracebackhide__ = True
    everything = list(events)
    found = events_of(everything, event_type)
    for event in found:
        if not _differences(event, fields):
            return event
    if not found:
        raise AssertionError(f"no event {event_type}; recorded:\n{_listing(everything)}")
    nearest = min(found, key=lambda event: len(_differences(event, fields)))
    raise AssertionError(
        f"{len(found)} event(s) {event_type}, none with all fields asked for; the nearest"
        f" ({nearest.get('event_id')}) differs in:\n" + "\n".join(_differences(nearest, fields))
    )


def assert_no_event(events: Iterable[Event], event_type: str, /, **fields: Any) -> None:
    """Assert that no event of this type has these fields."""
    __tracebackhide__ = True
    for event in events_of(events, event_type):
        if not _differences(event, fields):
            raise AssertionError(f"an event {event_type} was recorded: {event}")


def assert_order(events: Iterable[Event], *event_types: str) -> None:
    """Assert that events of these types occur in this order, possibly with others in between."""
    __tracebackhide__ = True
    everything = list(events)
    rest = iter(everything)
    for position, wanted in enumerate(event_types):
        if not any(events_of([event], wanted) for event in rest):
            before = f" after {event_types[position - 1]}" if position else ""
            raise AssertionError(f"no event {wanted}{before}; recorded:\n{_listing(everything)}")


def _differences(event: Event, fields: dict[str, Any]) -> list[str]:
    lines = []
    for name, wanted in fields.items():
        if name not in event:
            near = ", ".join(sorted(event))
            lines.append(f"  {name}: not there, expected {wanted!r}; the event has {near}")
        elif wanted is ...:
            if event[name] is None:
                lines.append(f"  {name}: null, expected a value")
        elif event[name] != wanted:
            lines.append(f"  {name}: {event[name]!r}, expected {wanted!r}")
    return lines


def _listing(events: list[Event]) -> str:
    if not events:
        return "  nothing"
    lines = [
        f"  {number}. {event['event_type']}"
        f" ({event.get('agent_name') or event.get('pipeline_type') or ''})"
        for number, event in enumerate(events[:_SHOWN], 1)
    ]
    more = len(events) - _SHOWN
    return "\n".join([*lines, f"  and {more} more"] if more > 0 else lines)
