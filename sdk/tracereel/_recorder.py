"""The recorder: takes finished events and hands each to the spool, the metrics and the log.

One is active per process. It is made by `configure`, or by the first traced call from the
environment; a forked child makes its own.
"""

import atexit
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from opentelemetry.trace import TracerProvider

from tracereel import _guard
from tracereel import config as _config
from tracereel._clock import HybridClock, random_id, sortable_id
from tracereel._context import Trace
from tracereel._privacy import Privacy, hashed, strip_content
from tracereel._private_span import PrivateSpans
from tracereel._sampling import SAMPLED_OUT, Sampler
from tracereel._sender import Sender
from tracereel._shipper import FlushResult, Shipper
from tracereel._spool import Spool
from tracereel.config import Config
from tracereel.errors import ConfigurationError
from tracereel.logs import EventLogger, Logs
from tracereel.metrics import Recorded, metrics_of
from tracereel.redaction import Redaction

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MAX_REMEMBERED_TRACES: Final = 4096
"""Traces whose count is kept: sibling runs of one OpenTelemetry trace go on with it."""


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
        self._privacy = Privacy(config.redaction, capture_content=config.capture_content)
        self.acts = self._privacy.acts
        self.spans = PrivateSpans(tracer_provider, self._privacy)
        self._sampler: Sampler | None = None
        if config.sample_rate < 1.0:
            self._sampler = Sampler(
                config.sample_rate,
                keep_cost_usd=config.sample_keep_cost_usd,
                store=self._store,
                drop=self.drop,
            )
        self._logs = Logs(logger)
        self.clock = HybridClock()
        self.mark = f"{random_id(64):016x}"
        """Stands on every event id, so that no two recorders make the same."""
        self._spool = Spool(
            config.destination_dir, max_bytes=config.max_spool_bytes, on_late_drop=self.drop
        )
        self._shipper = Shipper(self._spool, Sender(config), self)
        self._recorded = Recorded(lambda: self._spool.recorded)
        self.metrics.follow(self._recorded)
        self._traces: dict[str, Trace] = {}
        self._older_traces: dict[str, Trace] = {}
        # Re-entrant: a signal handler may make a traced call while its own thread is in here.
        self._traces_lock = threading.RLock()
        self._counts_lock = threading.RLock()
        self._dropped = 0
        self._delivered = 0
        self.closed = False
        _guard.listen(self.metrics.count_internal_error)

    def trace(self, trace_id: str, suffix: str | None = None) -> Trace:
        """The trace of a new root run; the same object while runs of that id follow each other.

        A request id is made for a new one, from the suffix of another id if there is one.
        """
        found = self._traces.get(trace_id)
        return found if found is not None else self._remember(trace_id, suffix)

    def _remember(self, trace_id: str, suffix: str | None) -> Trace:
        # Two halves instead of an order of use: what was not asked for during one half's time goes.
        with self._traces_lock:
            found = self._traces.get(trace_id) or self._older_traces.get(trace_id)
            if found is None:
                found = Trace(trace_id, f"req_{suffix}" if suffix else sortable_id("req"))
            self._traces[trace_id] = found
            if len(self._traces) >= MAX_REMEMBERED_TRACES // 2:
                self._traces, self._older_traces = {}, self._traces
            return found

    def clean(self, event: dict[str, Any], trusted: str | None = None) -> None:
        """Make an event fit to leave; a text that is `trusted`, by identity, is passed over."""
        try:
            self._privacy.clean(event, trusted)
        except Exception as error:  # noqa: BLE001
            # What could not be looked at does not leave.
            strip_content(event)
            _guard.report("redaction", error)

    def owner(self, name: str, value: str) -> str:
        """The id of a user or session as it may leave."""
        try:
            return self._privacy.owner_field(name, value)
        except Exception as error:  # noqa: BLE001
            _guard.report("redaction", error)
            return hashed(value)

    def act(self, event: dict[str, Any]) -> None:
        """Do to single fields what the program's rules say; `acts` says whether there are any."""
        self._privacy.act(event)

    def record(
        self,
        event: dict[str, Any],
        trace: Trace | None,
        *,
        closes_run: bool = False,
        seconds: float | None = None,
    ) -> None:
        """Write a clean event down, count it, log it; each whatever becomes of the others."""
        try:
            if self._sampler is None:
                self._store(event, trace, closes_run)
            else:
                self._sampler.offer(event, trace, closes_run=closes_run)
        except Exception as error:  # noqa: BLE001
            _guard.report("spool", error)
            self.drop("internal_error")
        try:
            self.metrics.observe(event, seconds)
        except Exception as error:  # noqa: BLE001
            _guard.report("metrics", error)
        try:
            self._logs.write(event)
        except Exception as error:  # noqa: BLE001
            _guard.report("logs", error)

    def _store(self, event: dict[str, Any], trace: Trace | None, closes_run: bool) -> None:
        reason = self._spool.append(event, trace, closes_run=closes_run)
        if reason is not None:
            self.drop(reason)
            return
        self._shipper.wake()

    def drop(self, reason: str) -> None:
        """Account for an event that is not recorded."""
        with self._counts_lock:
            self._dropped += 1
        with _guard.Guard("metrics"):
            self.metrics.count_drop(reason)
        if reason not in ("no_execution", "duplicate_tool_call", SAMPLED_OUT):
            _guard.warn_once(
                f"drop:{reason}",
                "tracereel: events are dropped (%s); the spool is %s (TRACEREEL_SPOOL_DIR)",
                reason,
                self.config.destination_dir,
            )

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

    def observe_clock(self, hlc: str) -> None:
        """Move our clock past one that came from outside; one that is far ahead is ignored."""
        self.clock.observe(hlc)

    def flush(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Wait for delivery, at most `timeout` seconds."""
        self._shipper.drain(timeout, at_exit=at_exit)
        with self._counts_lock:
            waiting = max(0, self._spool.recorded - self._shipper.settled)
            return FlushResult(self._delivered, waiting, self._dropped)

    def close(self, timeout: float, *, at_exit: bool = False) -> FlushResult:
        """Deliver what can be in time, end the thread, leave the rest for a later process."""
        started = time.monotonic()
        # From here on, calls that end belong to the recorder that follows, if there is one.
        self.closed = True
        if self._sampler is not None:
            self._sampler.drain()
        result = self.flush(timeout, at_exit=at_exit)
        with _guard.Guard("metrics"):
            self.metrics.count_recorded()
        self._shipper.stop(min(timeout - (time.monotonic() - started), timeout))
        return result

    def successor(self) -> "Recorder":
        """In a forked child: the same configuration, nothing of the parent's."""
        # Calls that began before the fork end in the child too: with its recorder, not with this.
        self.closed = True
        # The parent counts them.
        self._recorded.uncounted()
        self._spool.disown()
        self._shipper.disown()
        child = Recorder(self.config, **self._wiring)
        # Kept, so that the child's garbage collector does not close sockets it shares with us.
        child._forked_from = self
        child.clock = self.clock.copy()
        return child


_UNSET: Final = "unset"
_active: Recorder | Literal["unset"] | None = _UNSET
_lock = threading.RLock()


def active() -> Recorder | None:
    """The recorder in force; null when recording is off."""
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
    registry: "CollectorRegistry | None" = None,
    tracer_provider: TracerProvider | None = None,
    logger: EventLogger | None = None,
) -> None:
    """Set the SDK up; what is not given comes from the environment (see `tracereel.config`).

    May be called again: what the former configuration has recorded is flushed first, or left in its
    spool for later delivery.

    Args:
        registry: Prometheus registry for the series; the default one if not given.
        tracer_provider: where spans go; the global provider if there is one, else nowhere.
        logger: a structlog logger for the lines; structlog's configured one if not given.

    Raises:
        ConfigurationError: a value cannot be used; nothing has changed.
    """
    config = _config.load(
        endpoint=endpoint,
        api_key=api_key,
        service=service,
        spool_dir=spool_dir,
        enabled=enabled,
        exit_timeout=exit_timeout,
        max_spool_bytes=max_spool_bytes,
        capture_content=capture_content,
        compression=compression,
        redaction=redaction,
        sample_rate=sample_rate,
        sample_keep_cost_usd=sample_keep_cost_usd,
    )
    recorder = None
    if config.enabled:
        recorder = Recorder(
            config, registry=registry, tracer_provider=tracer_provider, logger=logger
        )
    with _lock:
        before = _set_active(recorder)
    if before is not None:
        before.close(before.config.exit_timeout, at_exit=True)


def flush(timeout: float = 5.0) -> FlushResult:
    """Wait until everything recorded so far is delivered, at most `timeout` seconds.

    The counts are those since the configuration; `delivered + spooled + dropped` is every event.
    """
    recorder = None if isinstance(_active, str) else _active
    with _guard.Guard("flush"):
        if recorder is not None:
            return recorder.flush(timeout)
    return FlushResult(0, 0, 0)


def shutdown(timeout: float = 2.0) -> FlushResult:
    """Flush and end delivery. What is traced afterwards is spooled for a later process."""
    recorder = None if isinstance(_active, str) else _active
    with _guard.Guard("shutdown"):
        if recorder is not None:
            return recorder.close(timeout)
    return FlushResult(0, 0, 0)


def _at_exit() -> None:
    recorder = None if isinstance(_active, str) else _active
    with _guard.Guard("exit"):
        if recorder is not None:
            recorder.close(recorder.config.exit_timeout, at_exit=True)


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    recorder = None if isinstance(_active, str) else _active
    with _guard.Guard("fork"):
        if recorder is not None:
            _set_active(recorder.successor())


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
