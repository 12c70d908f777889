"""For the tests of programs that use tracereel: events in memory, a step clock, fixed ids, assertions.

    from tracereel.testing import EventRecorder, assert_event

    with EventRecorder() as events:
        my_agent("a prompt")
    assert_event(events, "agent.execution.completed", agent_name="my_agent")

With pytest the fixture `recorded_events` is such a recorder. No file is written, nothing is sent.
"""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from opentelemetry.trace import TracerProvider

from tracereel import _recorder, _testing_patches, _values
from tracereel import config as _config
from tracereel._context import Trace
from tracereel._recorder import Recorder
from tracereel._shipper import FlushResult
from tracereel._testing_patches import StepClock
from tracereel.redaction import Redaction

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = [
    "EventRecorder",
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
    """A recorder that keeps events where a test can see them, as the collector would get them."""

    def __init__(self, config: _config.Config, **wiring: Any) -> None:
        super().__init__(config, **wiring)
        self.events: list[Event] = []
        self._write_lock = threading.RLock()

    def _store(self, event: Event, trace: Trace | None, closes_run: bool | None) -> None:
        # By way of JSON: what a test sees is what would have been sent, and nothing changes later.
        whole: Event = msgspec.json.decode(_values.encode(event))
        with self._write_lock:
            whole["emitter_id"] = emitter = "emt_testing"
            whole["emitter_seq"] = len(self.events) + 1
            if trace is not None:
                if trace.emitter_id != emitter:
                    trace.emitter_id, trace.recorded = emitter, 0
                trace.recorded += 1
                whole["trace_seq"] = trace.recorded
                trace.told = trace.told if closes_run is None else closes_run
                if trace.told:
                    whole["trace_event_count"] = trace.recorded
            self.events.append(whole)
        self.metrics.count_events("recorded")

    def write_all(self, bodies: list[bytes], trace: Trace, *, closes_run: bool | None) -> None:
        for body in bodies[:-1]:
            self._store(_values.Encoded(body), trace, False)
        self._store(_values.Encoded(bodies[-1]), trace, closes_run)

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
        """A forked child records into its own memory, which nobody sees."""
        self.closed = True
        return _MemoryRecorder(self.config, **self._wiring)


class EventRecorder:
    """Records every event of this process in memory, from `with` (or `start`) to its end (`stop`).

    It stands in for whatever was configured, which is in force again afterwards. Iterating it, or
    `events`, gives the events so far, in the order they were recorded.

    Args:
        clock: time as the SDK sees it; a `StepClock` makes timestamps and durations repeatable.
        fixed_ids: count ids up instead of drawing them, so that two runs have the same.
        capture_content, redaction, sample_rate: as for `configure`.
        registry: Prometheus registry for the series; a new one, seen by nobody, if not given.
        tracer_provider: where spans go; as for `configure`.
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
            # Never written to; it does not exist, so that a mistake here would be seen.
            "spool_dir": _NOWHERE,
        }
        self._wiring = {"registry": registry, "tracer_provider": tracer_provider}
        self._patches = _testing_patches.Patches(clock, fixed_ids=fixed_ids)
        self._recorder: _MemoryRecorder | None = None
        self._before: Any = None
        self._active = False

    def start(self) -> "EventRecorder":
        """Begin, with no events."""
        if self._active:
            raise RuntimeError("this EventRecorder is recording already")
        self._patches.apply()
        self._recorder = _MemoryRecorder(_config.load({}, **self._settings), **self._wiring)
        self._before, _recorder._active = _recorder._active, self._recorder  # noqa: SLF001
        self._active = True
        return self

    def stop(self) -> None:
        """End; the events stay readable. Safe to call again."""
        if not self._active or self._recorder is None:
            return
        self._active = False
        self._recorder.close(0.0)
        _recorder._active = self._before  # noqa: SLF001
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
        """The events so far."""
        return list(self._recorder.events) if self._recorder is not None else []

    def get_events(self, event_type: str | None = None) -> list[Event]:
        """The events so far, all or those of one type."""
        return self.events if event_type is None else events_of(self.events, event_type)

    def clear(self) -> None:
        """Forget the events so far; their numbers go on from 1."""
        if self._recorder is not None:
            self._recorder.events.clear()

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)


def events_of(events: Iterable[Event], event_type: str) -> list[Event]:
    """Those of one type, in their order; `agent.execution.*` is all that begin so."""
    if event_type.endswith("*"):
        return [event for event in events if event["event_type"].startswith(event_type[:-1])]
    return [event for event in events if event["event_type"] == event_type]


def assert_event(events: Iterable[Event], event_type: str, /, **fields: Any) -> Event:
    """There is an event of this type with these fields; gives the first such.

    A value is compared with `==` (so `pytest.approx` works); `...` means that there is one, not null.

    Raises:
        AssertionError: there is none; the message says which came nearest and where they differ.
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
    """There is no event of this type with these fields."""
    __tracebackhide__ = True
    for event in events_of(events, event_type):
        if not _differences(event, fields):
            raise AssertionError(f"an event {event_type} was recorded: {event}")


def assert_order(events: Iterable[Event], *event_types: str) -> None:
    """Events of these types were recorded in this order; others may stand between them."""
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
