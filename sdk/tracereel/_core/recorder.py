"""Recorder: passes events to the spool, the metrics and the log.

Each process has one active recorder, created by `configure` or, from the environment, by the first
traced call. A forked child creates a new one.
"""

import os
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, TracerProvider

from tracereel import config as _config
from tracereel import failures
from tracereel._core import recorder_overrides
from tracereel._core.result_fields import ResultReader
from tracereel._core.run_state import Emitted, RememberedTraces
from tracereel._core.sampling import SAMPLED_OUT, Sampler
from tracereel._core.span_outlet import SpanOutlet, set_global_provider
from tracereel._export.destinations import spool_of
from tracereel._export.leftovers import ship_at_exit
from tracereel._export.shipper import FlushResult, Shipper
from tracereel._export.spool import SPOOL_ERROR
from tracereel._export.store_confirmation import confirm_stored
from tracereel._export.trace_state import TraceState
from tracereel._redact.content import ContentCopies
from tracereel._redact.event_redaction import Privacy, hashed
from tracereel._redact.rules import Redaction
from tracereel._redact.rules import listen as listen_to_redactions
from tracereel._runtime import gevent_compat, guard, process_exit
from tracereel._runtime.clock import HybridClock, random_id
from tracereel._telemetry import delivery_slo
from tracereel._telemetry.event_log import EventLogger, Logs
from tracereel._telemetry.metrics import Recorded, metrics_of
from tracereel._telemetry.redacted_spans import PrivateSpans
from tracereel.config import Config
from tracereel.errors import ConfigurationError
from tracereel.failures import FailureRule

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tracereel._core.tape_session import TapeSession

Event = dict[str, Any]
_TAPE_RECORDING: Final = "tracereel.tape.recording"
"""Imported if tapes are on; it depends on the recorder."""

before_flush: Final[list[Callable[[], None]]] = []
"""Callbacks at the start of every flush; tapes write their buffered parts."""


class Recorder:
    """Recording state of one configuration; never raises into its callers."""

    def __init__(
        self,
        config: Config,
        *,
        registry: "CollectorRegistry | None" = None,
        tracer_provider: TracerProvider | None = None,
        logger: EventLogger | None = None,
    ) -> None:
        self.config = config
        self._wiring: dict[str, Any] = {
            "registry": registry,
            "tracer_provider": tracer_provider,
            "logger": logger,
        }
        self._forked_from: Recorder | None = None
        self.metrics = metrics_of(registry)
        self.results = ResultReader(config.result_fields)
        self.privacy = Privacy(config.redaction, capture_content=config.capture_content)
        limits = config.max_message_bytes, config.max_content_bytes
        self.content = ContentCopies(self.privacy, *limits)
        self._outlet = outlet = SpanOutlet(config, self.privacy, self.metrics)
        self.spans = PrivateSpans(
            tracer_provider,
            self.privacy,
            outlet.tap,
            outlet.send,
            # Otherwise, a provider would change nothing, or the program wants none.
            says_lost=config.other_spans and config.set_tracer_provider is not False,
        )
        for provider in (tracer_provider, trace.get_tracer_provider()):
            outlet.tap(provider)
        self._sampler: Sampler | None = None
        if config.sample_rate < 1.0:
            self._sampler = Sampler(
                config.sample_rate,
                keep_cost_usd=config.sample_keep_cost_usd,
                store=lambda event, trace, closes: self._store([event], trace, closes),
                drop=self.drop,
                encode=self.content.line,
            )
        self.logs = Logs(logger, config.event_logs)
        self.clock = HybridClock(config.max_clock_drift)
        self.mark = f"{random_id(64):016x}"
        """Suffix of event ids that is unique to this recorder."""
        self._spool = spool_of(config, on_late_drop=self.drop)
        self._shipper = Shipper.of(config, self._spool, self)
        self._recorded = Recorded(lambda: self._spool.recorded)
        self.metrics.follow(self._recorded)
        self._traces = RememberedTraces()
        self.trace, self.reopen = self._traces.trace, self._traces.reopen
        self._counts_lock = gevent_compat.RLock()
        self._dropped = self._lost = self._runs_counted = self._delivered = 0
        self._drops: Counter[str] = Counter()
        self.closed = False
        self.tape: TapeSession | None = None
        """Session that records or replays calls; `None` if off."""
        self.choice: dict[str, Any] = {}
        """Tape selection, shown on a run's first and last events; empty if all runs are taped."""
        if config.record != "off":
            recording = import_module(_TAPE_RECORDING)
            self.tape, self.choice = recording.start(self), recording.choice_of(config)
        asked = weakref.WeakMethod(self._update_gauges)
        self.metrics.refresh_when_collected(lambda: (tell := asked()) and tell())
        guard.listen(self.metrics.count_internal_error)
        listen_to_redactions(self.metrics.count_redaction)

    def owner(self, name: str, value: str) -> str:
        """Return the redacted id of a user or session."""
        try:
            return self.privacy.owner_field(name, value)
        except Exception as error:  # noqa: BLE001
            guard.report("redaction", error)
            return hashed(value)

    def record_all(
        self,
        events: list[Event],
        trace: TraceState,
        *,
        closes_run: bool | None,
        seconds: float | None,
        module: str | None = None,
    ) -> bool:
        """Write, count and log redacted events of one moment; the last one may close the run.

        `module` is that of the traced code. A failure of one of these does not affect the others.
        Return whether the events are in the spool.
        """
        is_spooled = self.keep(events, trace, closes_run=closes_run)
        last = events[-1]
        for event in events:
            try:
                self.metrics.observe(event, seconds if event is last else None)
            except Exception as error:  # noqa: BLE001
                guard.report("metrics", error)
            try:
                self.logs.write(event, module)
            except Exception as error:  # noqa: BLE001
                guard.report("logs", error)
        return is_spooled

    def keep(self, events: list[Event], trace: TraceState, *, closes_run: bool | None) -> bool:
        """Write redacted events of one moment, without metrics and logs.

        Return whether they are in the spool; a sampler may hold them.
        """
        try:
            if self._sampler is None:
                return self._store(events, trace, closes_run)
            for event in events:
                closes = closes_run if event is events[-1] else False
                self._sampler.offer(event, trace, closes_run=closes)
        except Exception as error:  # noqa: BLE001
            guard.report("spool", error)
            self.drop("internal_error", len(events))
        return False

    def _store(
        self, events: list[Event], trace: TraceState | None, closes_run: bool | None
    ) -> bool:
        lines = list(map(self.content.line, events))
        reason = self._spool.append_all(lines, trace, closes_run=closes_run)
        if reason is None:
            self._shipper.wake()
        else:
            self.drop(reason, len(lines))
        return reason is None

    def whereabouts(self, event: Event, *, is_spooled: bool, stored_within: float) -> Emitted:
        """Return where a recorded event is, at most `stored_within` seconds later."""
        if not is_spooled:
            return "held" if self._sampler is not None else "dropped"
        deadline, target = time.monotonic() + stored_within, self._spool.recorded
        if stored_within > 0:
            self._shipper.drain(stored_within)
            left = deadline - time.monotonic()
            is_sent = self._shipper.settled >= target
            if is_sent and confirm_stored(self.config, b"".join(self.content.line(event)), left):
                return "stored"
        # In memory because of a disk error, or on disk.
        return "held" if self._spool.memory.numbers() else "spooled"

    def drop(self, reason: str, events: int = 1) -> None:
        """Count events that are not recorded."""
        with self._counts_lock:
            self._dropped += events
            self._drops[reason] += events
        with guard.Guard("metrics"):
            self.metrics.count_drop(reason, events)
        if reason not in ("no_execution", "duplicate_tool_call", SAMPLED_OUT):
            guard.warn_once(
                f"drop:{reason}",
                "tracereel: events are dropped (%s); the spool is %s (TRACEREEL_SPOOL_DIR)",
                reason,
                self.config.destination_dir,
            )

    def answered(self, lines: list[bytes], *, own: bool) -> None:
        """Observe delivery metrics after the collector responded to these lines."""
        with guard.Guard("metrics"):
            answered = delivery_slo.look_at(lines)
            self.metrics.observe_answer(answered if own else replace(answered, delays=()))
            self._update_gauges()

    def _update_gauges(self) -> None:
        """Update the metrics that are not counted per event."""
        with self._counts_lock:
            opened = self._traces.opened + self._spool.closed_again - self._runs_counted
            self._runs_counted += opened
            events, size = self._shipper.waiting
            events = max(0, events - self._lost)
        self.metrics.count_runs("opened", opened)
        self.metrics.set_spooled(events, size if events else 0)

    def settled(self, *, delivered: int, rejected: int, own: bool) -> None:
        """Count the events that the collector accepted or rejected."""
        self.metrics.count_recorded()
        if delivered:
            self.metrics.count_events("delivered", delivered)
        if rejected:
            self.metrics.count_events("rejected", rejected)
            guard.warn_once(
                "rejected", "tracereel: the collector refused events; they are kept in the spool"
            )
        if own:
            with self._counts_lock:
                self._delivered += delivered
                self._dropped += rejected

    def lost(self, events: int) -> None:
        """Count events that were only in memory when the shipper stopped."""
        self.drop(SPOOL_ERROR, events)
        with self._counts_lock:
            self._lost += events

    def drops(self) -> dict[str, int]:
        """Return the number of dropped events by reason."""
        with self._counts_lock:
            return dict(self._drops)

    def flush(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Wait for delivery, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        for hook in before_flush:
            hook()
        if (spans := self._outlet.out) is not None:
            spans.flush(0.0)  # starts delivery in parallel to the events
        self._shipper.drain(timeout, at_exit=at_exit)
        if spans is not None:
            spans.flush(deadline - time.monotonic(), at_exit=at_exit)
        return self._result()

    def _result(self, lost: int = 0) -> FlushResult:
        with self._counts_lock:
            waiting = max(0, self._spool.recorded - self._shipper.settled - self._lost - lost)
            held = self._sampler.held_events if self._sampler is not None else 0
            return FlushResult(self._delivered, waiting, self._dropped + lost, held)

    def close(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Flush within the timeout, stop the thread, and leave the rest to a later process."""
        if at_exit and self._outlet.out is not None:
            timeout = max(0.0, timeout - self._outlet.out.just_waited)
        started = time.monotonic()
        # Calls that end from now on belong to the next recorder, if there is one.
        self.closed = True
        if self._sampler is not None:
            self._sampler.drain()
        self.flush(timeout, at_exit=at_exit)
        if self._outlet.out is not None:
            self._outlet.out.close(timeout - (time.monotonic() - started))
        self._shipper.stop(min(timeout - (time.monotonic() - started), timeout))
        with guard.Guard("metrics"):
            self.metrics.count_recorded()
            self._update_gauges()
        return self._shipper.count_lost_at_exit(self._result)

    @property
    def delivers(self) -> bool:
        """Whether the delivery thread runs; it is not started without events or at process exit."""
        return self._shipper.is_started

    def successor(self) -> "Recorder":
        """Return a recorder for a forked child, with the same configuration and no events."""
        # Calls that began before the fork also end in the child, with its recorder.
        self.closed = True
        # The parent counts these events.
        self._recorded.uncounted()
        self._spool.disown()
        self._shipper.disown()
        if self._outlet.out is not None:
            self._outlet.out.disown()
        child = Recorder(self.config, **self._wiring)
        # Keep the parent's recorder, so that garbage collection does not close shared sockets.
        child._forked_from = self
        child.clock = self.clock.copy()
        child.logs.prints = self.logs.prints
        return child


_UNSET: Final = "unset"
_active: Recorder | Literal["unset"] | None = _UNSET
_lock = gevent_compat.RLock()


def active() -> Recorder | None:
    """Return the active recorder, or `None` if recording is off."""
    if process_exit.too_late():
        return None
    if recorder_overrides.in_force and (found := recorder_overrides.here()) is not None:
        return cast("Recorder", found)
    if _active is _UNSET or isinstance(_active, str):
        return _from_environment()
    return _active


def _from_environment() -> Recorder | None:
    """Configure from the environment; on invalid settings log an error and turn recording off."""
    with _lock:
        is_first = isinstance(_active, str)
        if is_first:
            try:
                _use(_config.load(), (), wants_provider=False)
                if isinstance(_active, Recorder):
                    _active.logs.prints = False
            except ConfigurationError as error:
                guard.log.error("tracereel: recording is off: %s", error)
                _set_active(None)
            except Exception as error:  # noqa: BLE001
                _set_active(None)
                guard.report("configure", error)
        return None if isinstance(_active, str) else _active


def _set_active(recorder: Recorder | None) -> Recorder | None:
    global _active
    before, _active = _active, recorder
    return None if isinstance(before, str) else before


def configure(
    *,
    endpoint: str | None = None,
    api_key: str | None = None,
    service: str | None = None,
    spool_dir: str | Path | None = None,
    enabled: bool | None = None,
    exit_timeout: float | None = None,
    max_spool_bytes: int | None = None,
    capture_content: bool | None = None,
    max_message_bytes: int | None = None,
    max_content_bytes: int | None = None,
    event_logs: str | None = None,
    store_thinking: bool | None = None,
    compression: str | None = None,
    result_fields: Mapping[str, str | Sequence[str]] | None = None,
    redaction: Redaction | bool | None = None,
    sample_rate: float | None = None,
    sample_keep_cost_usd: float | None = None,
    heartbeat_seconds: float | None = None,
    other_spans: bool | None = None,
    set_tracer_provider: bool | None = None,
    max_clock_drift: float | None = None,
    record: str | None = None,
    record_rate: float | None = None,
    record_exact: bool | None = None,
    registry: "CollectorRegistry | None" = None,
    tracer_provider: TracerProvider | None = None,
    logger: EventLogger | None = None,
    failure_rules: Iterable[FailureRule] = (),
) -> None:
    """Configure the SDK; other settings come from the environment (see `tracereel.config`).

    It may be called again: events of the previous configuration are flushed, or stay in the spool for
    later delivery.

    Args:
        registry: Prometheus registry for the metrics; default is the global one.
        tracer_provider: provider for spans; default is the global one. If the program has none, it
            is given one, except with `set_tracer_provider=False`.
        logger: structlog logger for event log lines; default is the program's logging.
        failure_rules: failure rules in order of precedence, after those of `add_failure_rule`.

    Raises:
        ConfigurationError: a value is invalid; the configuration is unchanged.
    """
    given = locals()
    config = _config.load(**{name: given[name] for name in _config.settings()})
    rules = failures.check_rules(failure_rules)
    wants_provider = (
        config.other_spans
        and tracer_provider is None
        and isinstance(trace.get_tracer_provider(), ProxyTracerProvider)
    )
    wiring = {"registry": registry, "tracer_provider": tracer_provider, "logger": logger}
    _use(config, rules, wants_provider=wants_provider, **wiring)


def _use(
    config: Config, rules: tuple[FailureRule, ...], *, wants_provider: bool, **wiring: Any
) -> None:
    """Make a recorder of this configuration the active one.

    `wants_provider` is the default of the setting `set_tracer_provider`.
    """
    recorder = None
    if config.enabled:
        chosen = config.set_tracer_provider
        if wants_provider if chosen is None else chosen:
            set_global_provider(config.service)
        recorder = Recorder(config, **wiring)
        recorder.logs.prints = True
    with _lock:
        before = _set_active(recorder)
        failures.use_rules(rules)
    if before is not None:
        before.close(before.config.exit_timeout, at_exit=True)


def flush(timeout: float = 5.0) -> FlushResult:
    """Wait until all recorded events are delivered, at most `timeout` seconds.

    Counts start at the last `configure`; `delivered + spooled + dropped + held` is the total.
    """
    recorder = _in_use()
    with guard.Guard("flush"):
        if recorder is not None:
            return recorder.flush(timeout)
    return FlushResult(0, 0, 0)


def shutdown(timeout: float = 2.0) -> FlushResult:
    """Flush and stop delivery; later events are spooled for another process."""
    recorder = _in_use()
    with guard.Guard("shutdown"):
        if recorder is not None:
            return recorder.close(timeout)
    return FlushResult(0, 0, 0)


def _in_use() -> Recorder | None:
    """Return the active recorder without creating one."""
    if recorder_overrides.in_force and (found := recorder_overrides.here()) is not None:
        return cast("Recorder", found)
    return None if isinstance(_active, str) or process_exit.too_late() else _active


def _at_exit() -> None:
    with guard.Guard("exit"):
        started = time.monotonic()
        recorder, waiting = _in_use(), 0
        if recorder is not None:
            waiting = recorder.close(recorder.config.exit_timeout, at_exit=True).spooled
            if recorder.delivers:
                return
        elif _active is None:
            return
        if waiting or process_exit.had_children():
            config = recorder.config if recorder is not None else _config.load()
            if config.enabled:
                ship_at_exit(config, config.exit_timeout - (time.monotonic() - started))


def _after_fork() -> None:
    global _lock
    _lock = gevent_compat.RLock()
    recorder = None if isinstance(_active, str) else _active
    with guard.Guard("fork"):
        if recorder is not None:
            _set_active(recorder.successor())


process_exit.at_exit(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
