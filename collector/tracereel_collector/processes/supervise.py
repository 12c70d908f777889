"""`tracereel serve --workers N`: run engine, queue and delivery here, HTTP in workers."""

import contextlib
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tracereel_collector.app import Collector
from tracereel_collector.config import Settings
from tracereel_collector.processes.workers import WorkerPool
from tracereel_collector.runtime.wakeup_pipes import listen
from tracereel_collector.startup.worker_bootstrap import Link
from tracereel_collector.telemetry import name_thread, share_metrics

STATE_SECONDS = 0.5


def serve_in_workers(
    settings: Settings,
    sockets: list[socket.socket],
    *,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None],
) -> None:
    """Run the core here and one worker per socket until SIGINT or SIGTERM."""
    name_thread("supervise")
    run_dir = settings.data_dir / "run"
    metrics_dir, state_file = run_dir / "metrics", run_dir / "state.json"
    shutil.rmtree(run_dir, ignore_errors=True)
    share_metrics(metrics_dir, slot="core")
    append_fd, bell_fd = os.pipe()
    core = Collector(settings, shared=True)
    pool = WorkerPool(sockets)
    try:
        core.start_core(on_delivered=pool.notify_delivered)
        listen(append_fd, core.wake_delivery, name="append-bell")
        _write_state(core, pool, state_file)
        pool.start(
            Link(
                settings=_settings_of_each(settings, workers=len(sockets)),
                store=core.store_address,
                bell_fd=bell_fd,
                metrics_dir=str(metrics_dir),
                state_file=str(state_file),
            )
        )
        stop = _stop_on_signals()
        on_ready()
        while not stop.wait(STATE_SECONDS):
            # On a full disk workers show an old state; the collector continues.
            with contextlib.suppress(OSError):
                _write_state(core, pool, state_file)
        on_stop()
    finally:
        pool.stop(timeout=settings.stop_seconds)
        core.stop()
        os.close(bell_fd)


def _settings_of_each(settings: Settings, *, workers: int) -> Settings:
    """Divide the limits of bytes in memory; a tenant's share must still fit one body."""
    least = int(settings.max_body_bytes / settings.tenant_share)
    return replace(
        settings,
        max_inflight_bytes=max(least, settings.max_inflight_bytes // workers),
        forward_queue_bytes=max(1, settings.forward_queue_bytes // workers),
    )


def _write_state(core: Collector, pool: WorkerPool, file: Path) -> None:
    """Replace the state file atomically: workers read it concurrently."""
    state = json.dumps({**core.store_state(), "worker_restarts": pool.restarts})
    if file.exists() and file.read_text(encoding="utf-8") == state:
        return
    part = file.with_suffix(".part")
    part.write_text(state, encoding="utf-8")
    part.replace(file)


def _stop_on_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set; a second signal ends the process at once."""
    stop = threading.Event()

    def stop_or_exit(_number: int, _frame: object) -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_or_exit)
    return stop
