"""The recorder: takes finished events and hands each to the spool, the metrics and the log.

One is active per process. It is made by `configure`, or by the first traced call from the
environment; a forked child makes its own.
"""

import os
import time
import weakref
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from opentelemetry import trace
from opentelemetry.trace import TracerProvider

from tracereel import _exits, _goals, _guard, _memory_segments, _native, _stand_ins, failures
from tracereel import config as _config
from tracereel._clock import HybridClock, random_id
from tracereel._context import Trace
from tracereel._heartbeat import Heartbeats
from tracereel._privacy import Privacy, hashed, strip_content
from tracereel._private_span import PrivateSpans
from tracereel._sampling import SAMPLED_OUT, Sampler
from tracereel._sender import Sender
from tracereel._shipper import FlushResult, Shipper, ship_at_exit
from tracereel._spool import SPOOL_ERROR, Spool
from tracereel._traces import RememberedTraces
from tracereel._values import encode
from tracereel.config import Config
from tracereel.errors import ConfigurationError
from tracereel.failures import FailureRule
from tracereel.logs import EventLogger, Logs
from tracereel.metrics import Recorded, metrics_of
from tracereel.redaction import Redaction
from tracereel.redaction import listen as listen_to_redactions

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tracereel._other_spans import OtherSpans
    from tracereel.tape.taped import Session


Event = dict[str, Any]


class Recorder:
    """Everything that one configuration needs to record; never raises into its callers."""

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
        self.privacy = Privacy(config.redaction, capture_content=config.capture_content)
        self.acts = self.privacy.acts
        self._other_spans: OtherSpans | None = None
        self.spans = PrivateSpans(tracer_provider, self.privacy, self._tap)
        for provider in (tracer_provider, trace.get_tracer_provider()):
            self._tap(provider)
        self._sampler: Sampler | None = None
        if config.sample_rate < 1.0:
            self._sampler = Sampler(
                config.sample_rate,
                keep_cost_usd=config.sample_keep_cost_usd,
                store=self._store,
                drop=self.drop,
            )
        self.writes_at_once = self._sampler is None
        """Whether an event is written as soon as it is recorded, whatever it says."""
        self.logs = Logs(logger)
        self.clock = HybridClock(config.max_clock_drift)
        self.mark = f"{random_id(64):016x}"
        """Stands on every event id, so that no two recorders make the same."""
        self._spool = Spool(
            config.destination_dir,
            max_bytes=config.max_spool_bytes,
            memory_bytes=_memory_segments.MAX_BYTES,
            on_late_drop=self.drop,
        )
        sender = Sender(config)
        self._shipper = Shipper(self._spool, sender, self, heartbeats=Heartbeats(config, sender))
        self._recorded = Recorded(lambda: self._spool.recorded)
        self.metrics.follow(self._recorded)
        self._traces = RememberedTraces()
        self.trace, self.reopen = self._traces.trace, self._traces.reopen
        self._counts_lock = _native.RLock()
        self._dropped = 0
        self._drops: Counter[str] = Counter()
        self._lost = 0
        self._runs_told = 0
        self._delivered = 0
        self.closed = False
        self.tape: Session | None = None
        """What records calls for re-execution, or serves them; null when neither is wanted."""
        self.choice: dict[str, Any] = {}
        """What a run's first and last events say of which runs get a tape, where not all do."""
        if config.record != "off":
            from tracereel.tape import choice_of, recordings_of

            self.tape, self.choice = recordings_of(self), choice_of(config)
        asked = weakref.WeakMethod(self._tell)
        self.metrics.ask_when_collected(lambda: (tell := asked()) and tell())
        _guard.listen(self.metrics.count_internal_error)
        listen_to_redactions(self.metrics.count_redaction)

    def _tap(self, provider: object) -> None:
        """A tracer provider is seen for the first time: what others record with it goes along."""
        if not self.config.other_spans or not hasattr(provider, "add_span_processor"):
            return
        with _guard.Guard("other_spans"):
            # Whoever has such a provider has loaded OpenTelemetry's SDK; nobody else pays for it.
            from tracereel import _other_spans

            if self._other_spans is None:
                self._other_spans = _other_spans.OtherSpans(self.config, self.privacy, self.metrics)
            _other_spans.attach(provider, self._other_spans)

    def clean(self, events: list[dict[str, Any]], trusted: str | None = None) -> None:
        """Make events fit to leave; a text that is `trusted`, by identity, is passed over."""
        try:
            self.privacy.clean_all(events, trusted)
        except Exception as error:  # noqa: BLE001
            # What could not be looked at does not leave.
            for event in events:
                strip_content(event)
            _guard.report("redaction", error)

    def owner(self, name: str, value: str) -> str:
        """The id of a user or session as it may leave."""
        try:
            return self.privacy.owner_field(name, value)
        except Exception as error:  # noqa: BLE001
            _guard.report("redaction", error)
            return hashed(value)

    def act(self, event: dict[str, Any]) -> None:
        """Do to single fields what the program's rules say; `acts` says whether there are any."""
        self.privacy.act(event)

    def record(
        self,
        event: dict[str, Any],
        trace: Trace | None,
        *,
        closes_run: bool | None = False,
        seconds: float | None = None,
    ) -> None:
        """Write a clean event down, count it, log it; each whatever becomes of the others."""
        self.keep(event, trace, closes_run=closes_run)
        self._tell_of(event, seconds)

    def record_all(
        self, events: list[Event], trace: Trace, *, closes_run: bool | None, seconds: float | None
    ) -> None:
        """The same for events of one moment, by one write; the last of them may close the run."""
        if not self.writes_at_once:
            for event in events[:-1]:
                self.record(event, trace)
            self.record(events[-1], trace, closes_run=closes_run, seconds=seconds)
            return
        self.write_all(list(map(encode, events)), trace, closes_run=closes_run)
        for event in events:
            self._tell_of(event, seconds if event is events[-1] else None)

    def write_all(self, bodies: list[bytes], trace: Trace, *, closes_run: bool | None) -> None:
        """Write clean events of one moment down that are JSON already, and nothing else."""
        try:
            reason = self._spool.append_all(bodies, trace, closes_run=closes_run)
            if reason is None:
                self._shipper.wake()
            else:
                self.drop(reason, len(bodies))
        except Exception as error:  # noqa: BLE001
            _guard.report("spool", error)
            self.drop("internal_error", len(bodies))

    def _tell_of(self, event: dict[str, Any], seconds: float | None) -> None:
        try:
            self.metrics.observe(event, seconds)
        except Exception as error:  # noqa: BLE001
            _guard.report("metrics", error)
        try:
            self.logs.write(event)
        except Exception as error:  # noqa: BLE001
            _guard.report("logs", error)

    def keep(
        self, event: dict[str, Any], trace: Trace | None, *, closes_run: bool | None = False
    ) -> None:
        """Write a clean event down, and nothing else."""
        try:
            if self._sampler is not None:
                self._sampler.offer(event, trace, closes_run=closes_run)
            else:
                self._store(event, trace, closes_run)
        except Exception as error:  # noqa: BLE001
            _guard.report("spool", error)
            self.drop("internal_error")

    def _store(self, event: dict[str, Any], trace: Trace | None, closes_run: bool | None) -> None:
        reason = self._spool.append(event, trace, closes_run=closes_run)
        if reason is None:
            self._shipper.wake()
        else:
            self.drop(reason)

    def drop(self, reason: str, events: int = 1) -> None:
        """Account for events that are not recorded."""
        with self._counts_lock:
            self._dropped += events
            self._drops[reason] += events
        with _guard.Guard("metrics"):
            self.metrics.count_drop(reason, events)
        if reason not in ("no_execution", "duplicate_tool_call", SAMPLED_OUT):
            _guard.warn_once(
                f"drop:{reason}",
                "tracereel: events are dropped (%s); the spool is %s (TRACEREEL_SPOOL_DIR)",
                reason,
                self.config.destination_dir,
            )

    def answered(self, lines: list[bytes], *, own: bool) -> None:
        """The shipper has had an answer for these lines."""
        with _guard.Guard("metrics"):
            answered = _goals.look_at(lines)
            self.metrics.observe_answer(answered if own else replace(answered, delays=()))
            self._tell()

    def _tell(self) -> None:
        """Bring figures up to date that are not counted one by one."""
        with self._counts_lock:
            opened = self._traces.opened + self._spool.told_again - self._runs_told
            self._runs_told += opened
            events, size = self._shipper.waiting
            events = max(0, events - self._lost)
        self.metrics.count_runs("opened", opened)
        self.metrics.set_spooled(events, size if events else 0)

    def settled(self, *, delivered: int, rejected: int, own: bool) -> None:
        """The shipper reports what the collector answered for."""
        self.metrics.count_recorded()
        if delivered:
            self.metrics.count_events("delivered", delivered)
        if rejected:
            self.metrics.count_events("rejected", rejected)
            _guard.warn_once(
                "rejected", "tracereel: the collector refused events; they are kept in the spool"
            )
        if own:
            with self._counts_lock:
                self._delivered += delivered
                self._dropped += rejected

    def lost(self, events: int) -> None:
        """The shipper ends with events that were nowhere but in memory."""
        self.drop(SPOOL_ERROR, events)
        with self._counts_lock:
            self._lost += events

    def drops(self) -> dict[str, int]:
        """Events that were not recorded, by reason."""
        with self._counts_lock:
            return dict(self._drops)

    def observe_clock(self, hlc: str) -> None:
        """Move our clock past one that came from outside; one that is far ahead is ignored."""
        self.clock.observe(hlc)

    def flush(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Wait for delivery, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        if self.tape is not None:
            from tracereel.tape import gathering

            gathering.write_all()
        if self._other_spans is not None:
            self._other_spans.flush(0.0)  # it delivers while we wait for the events
        self._shipper.drain(timeout, at_exit=at_exit)
        if self._other_spans is not None:
            self._other_spans.flush(deadline - time.monotonic(), at_exit=at_exit)
        return self._result()

    def _result(self, lost: int = 0) -> FlushResult:
        with self._counts_lock:
            waiting = max(0, self._spool.recorded - self._shipper.settled - self._lost - lost)
            held = self._sampler.held_events if self._sampler is not None else 0
            return FlushResult(self._delivered, waiting, self._dropped + lost, held)

    def close(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Deliver what can be in time, end the thread, leave the rest for a later process."""
        if at_exit and self._other_spans is not None:
            timeout = max(0.0, timeout - self._other_spans.just_waited)
        started = time.monotonic()
        # From here on, calls that end belong to the recorder that follows, if there is one.
        self.closed = True
        if self._sampler is not None:
            self._sampler.drain()
        self.flush(timeout, at_exit=at_exit)
        with _guard.Guard("metrics"):
            self.metrics.count_recorded()
        if self._other_spans is not None:
            self._other_spans.close(timeout - (time.monotonic() - started))
        self._shipper.stop(min(timeout - (time.monotonic() - started), timeout))
        with _guard.Guard("metrics"):
            self._tell()
        return self._shipper.told_at_the_end(self._result)

    @property
    def delivers(self) -> bool:
        """Whether a thread delivers; without events, or late in a process, there is none."""
        return self._shipper.is_started

    def successor(self) -> "Recorder":
        """In a forked child: the same configuration, nothing of the parent's."""
        # Calls that began before the fork end in the child too: with its recorder, not with this.
        self.closed = True
        # The parent counts them.
        self._recorded.uncounted()
        self._spool.disown()
        self._shipper.disown()
        if self._other_spans is not None:
            self._other_spans.disown()
        child = Recorder(self.config, **self._wiring)
        # Kept, so that the child's garbage collector does not close sockets it shares with us.
        child._forked_from = self
        child.clock = self.clock.copy()
        return child


_UNSET: Final = "unset"
_active: Recorder | Literal["unset"] | None = _UNSET
_lock = _native.RLock()


def active() -> Recorder | None:
    """The recorder in force; null when recording is off."""
    if _exits.too_late():
        return None
    if _stand_ins.in_force and (found := _stand_ins.here()) is not None:
        recorder: Recorder = found
        return recorder
    if _active is _UNSET or isinstance(_active, str):
        return _from_environment()
    return _active


def _from_environment() -> Recorder | None:
    """First use without `configure`: bad settings turn recording off, they do not raise here."""
    with _lock:
        if isinstance(_active, str):
            try:
                configure()
            except ConfigurationError as error:
                _guard.log.error("tracereel: recording is off: %s", error)
                _set_active(None)
            except Exception as error:  # noqa: BLE001
                _set_active(None)
                _guard.report("configure", error)
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
    compression: str | None = None,
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
    """Set the SDK up; what is not given comes from the environment (see `tracereel.config`).

    May be called again: what the former configuration has recorded is flushed first, or left in its
    spool for later delivery.

    Args:
        registry: Prometheus registry for the series; the default one if not given.
        tracer_provider: where spans go; the global provider if there is one, else nowhere.
        logger: a structlog logger for the lines; structlog's configured one if not given.
        failure_rules: what errors mean, asked in this order, after those of `add_failure_rule`.

    Raises:
        ConfigurationError: a value cannot be used; nothing has changed.
    """
    given = locals()
    config = _config.load(**{name: given[name] for name in _config.settings()})
    rules = failures.check_rules(failure_rules)
    recorder = None
    if config.enabled:
        if config.set_tracer_provider:
            from tracereel import _other_spans

            _other_spans.set_global_provider(config.service)
        recorder = Recorder(
            config, registry=registry, tracer_provider=tracer_provider, logger=logger
        )
    with _lock:
        before = _set_active(recorder)
        failures.use_rules(rules)
    if before is not None:
        before.close(before.config.exit_timeout, at_exit=True)


def flush(timeout: float = 5.0) -> FlushResult:
    """Wait until everything recorded so far is delivered, at most `timeout` seconds.

    The counts are those since the configuration; `delivered + spooled + dropped + held` is every
    event.
    """
    recorder = _in_use()
    with _guard.Guard("flush"):
        if recorder is not None:
            return recorder.flush(timeout)
    return FlushResult(0, 0, 0)


def shutdown(timeout: float = 2.0) -> FlushResult:
    """Flush and end delivery. What is traced afterwards is spooled for a later process."""
    recorder = _in_use()
    with _guard.Guard("shutdown"):
        if recorder is not None:
            return recorder.close(timeout)
    return FlushResult(0, 0, 0)


def _in_use() -> Recorder | None:
    """The recorder if there is one; none is made."""
    if _stand_ins.in_force and (found := _stand_ins.here()) is not None:
        recorder: Recorder = found
        return recorder
    return None if isinstance(_active, str) or _exits.too_late() else _active


def _at_exit() -> None:
    with _guard.Guard("exit"):
        started = time.monotonic()
        recorder = _in_use()
        waiting = 0
        if recorder is not None:
            waiting = recorder.close(recorder.config.exit_timeout, at_exit=True).spooled
            if recorder.delivers:
                return
        elif _active is None:
            return
        if waiting or _exits.had_children():
            config = recorder.config if recorder is not None else _config.load()
            if config.enabled:
                ship_at_exit(config, config.exit_timeout - (time.monotonic() - started))


def _after_fork() -> None:
    global _lock
    _lock = _native.RLock()
    recorder = None if isinstance(_active, str) else _active
    with _guard.Guard("fork"):
        if recorder is not None:
            _set_active(recorder.successor())


_exits.at_exit(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
