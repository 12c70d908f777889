"""Supervisor that keeps one engine process alive; never imports chdb itself.

It binds the port and keeps it, so clients that connect while the engine restarts wait in the backlog
instead of being refused.
"""

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from tracereel._export.http_client import HTTP_ERRORS, HttpConnection
from tracereel_collector.engine.memory import machine_memory, usable_memory
from tracereel_collector.engine.oom import MemoryReserve, kill_first
from tracereel_collector.engine.process import EXIT_STORE_IN_USE
from tracereel_collector.engine.settings import ADDRESS_FILE, SECRET_FILE, EngineSettings
from tracereel_collector.errors import StartupError
from tracereel_collector.runtime.child_process import child_environment, end_process, wait_ready

State = Literal["new", "starting", "running", "restarting", "stopped", "failed"]
OnEvent = Callable[[str, Mapping[str, object]], None]
_BACKLOG = 256
_KILL_MARGIN = 3.0
KEEP_MEMORY = "dirty_decay_ms:20000,muzzy_decay_ms:0"
"""Allocator options of the engine: keep freed memory to avoid page faults in inserts.

Costs about 80 MiB under full load. The gain is within the noise: see docs/performance.md.
"""
_STEADY_SECONDS = 30.0
SHORT = "give machine or container more memory, or the store less (TRACEREEL_ENGINE_MEMORY_BYTES)"
KILLED = f"exited with -9, killed as the kernel does when memory is short: {SHORT}"
TOO_MUCH = (
    "the kernel kills the store when it takes what it may:"
    " set TRACEREEL_ENGINE_MEMORY_BYTES to half of the limit, or to 0, which is that"
)


class EngineStartError(StartupError, code="engine_start"):
    """The engine did not start; the message is its last line on stderr."""


class Supervisor:
    """Starts, monitors, restarts and stops the engine of one store directory."""

    def __init__(self, settings: EngineSettings, *, on_event: OnEvent | None = None) -> None:
        self.settings = settings
        self.state: State = "new"
        self.restarts = 0
        self.last_error: str | None = None
        self.advice: str | None = None
        """Advice about the last crash of the engine, if known."""
        self.secret = ""
        self.host = settings.host
        self.port = settings.port
        self._on_event = on_event
        self._lifecycle = threading.Lock()
        self._stopping = threading.Event()
        self._listener: socket.socket | None = None
        self._child: _Child | None = None
        self._monitor: threading.Thread | None = None
        self._reserve = MemoryReserve()

    @property
    def pid(self) -> int | None:
        """Pid of the engine process; None if there is none."""
        child = self._child
        return child.pid if child is not None and child.exit_code is None else None

    def start(self) -> None:
        """Start the engine and wait until it is ready; raise EngineStartError on failure."""
        with self._lifecycle:
            if self.state in {"running", "restarting"}:
                return
            self.state = "starting"
            self._stopping.clear()
            store_dir = self.settings.store_dir
            try:
                _check_path(store_dir)
                store_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
                self.secret = keep_secret(store_dir / SECRET_FILE)
                self._listener = self._bind()
                # For commands that use the data directory while another process runs the engine.
                address = f"{self.host} {self.port}\n"
                (store_dir / ADDRESS_FILE).write_text(address, encoding="ascii")
                self._child = self._launch()
            except (EngineStartError, OSError) as error:
                self.state = "failed"
                self.last_error = str(error)
                self._close_listener()
                if isinstance(error, EngineStartError):
                    raise
                raise EngineStartError(f"the engine cannot be started: {error}") from error
            self.state = "running"
            self._warn_of_too_much_memory()
            self._keep_reserve()
            self._monitor = threading.Thread(
                target=self._watch, name="tracereel-engine-monitor", daemon=True
            )
            self._monitor.start()

    def stop(self) -> None:
        """Stop engine and port: SIGTERM, wait, SIGKILL. Safe at any time and to call twice."""
        self._stopping.set()  # before the lock: a start that waits for its child aborts
        with self._lifecycle:
            while self._monitor is not None and self._monitor.is_alive():
                # The monitor may be starting a new child, so check again each time.
                if self._child is not None:
                    self._child.gone.set()
                self._monitor.join(0.05)
            self._monitor = None
            child = self._child
            if child is not None:
                child.end(grace=self.settings.stop_seconds + _KILL_MARGIN)
                self._child = None
                self._notify("engine.stopped", pid=child.pid, exit_code=child.exit_code)
            self._reserve.give_up()
            self._close_listener()
            if self.state != "new":
                self.state = "stopped"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise EngineStartError(
                f"port {self.host}:{self.port} cannot be bound: {error.strerror}",
                hint="choose another port, or 0 for any free one",
            ) from error
        self.port = listener.getsockname()[1]
        return listener

    def _launch(self) -> "_Child":
        """Start a child and wait until it is ready."""
        if self._listener is None:
            raise EngineStartError("the engine's port is closed")
        child = _Child(
            self.settings,
            self._listener,
            on_line=lambda line: self._notify("engine.output", line=line),
        )
        try:
            problem = child.wait_ready(self.settings.start_seconds, self._stopping)
        except BaseException:  # Ctrl-C while starting: only this frame has the child yet
            child.end(grace=0)
            raise
        if problem is not None:
            child.end(grace=0)
            raise EngineStartError(problem)
        self._notify("engine.ready", pid=child.pid, host=self.host, port=self.port)
        return child

    def _watch(self) -> None:
        backoff = self.settings.backoff_first_seconds
        while (child := self._child) is not None:
            since = time.monotonic()
            reason = self._until_gone(child)
            if self._stopping.is_set():
                return
            self.state = "restarting"
            child.end(grace=0)
            self.last_error = f"{reason}: {child.last_words}" if child.last_words else reason
            self._notify("engine.died", pid=child.pid, exit_code=child.exit_code, reason=reason)
            self._keep_reserve()
            if time.monotonic() - since > _STEADY_SECONDS:
                backoff = self.settings.backoff_first_seconds
            while True:
                if self._stopping.wait(backoff):
                    return
                backoff = min(backoff * 2, self.settings.backoff_last_seconds)
                self.restarts += 1
                try:
                    self._child = self._launch()
                except (EngineStartError, OSError) as error:
                    self.last_error = str(error)
                    self._notify(
                        "engine.restart_failed", reason=str(error), next_try_seconds=backoff
                    )
                    continue
                self.state = "running"
                break

    def _until_gone(self, child: "_Child") -> str:
        """Wait until this child has exited or hangs; return the reason."""
        missed = 0
        while not child.gone.wait(self.settings.ping_interval_seconds):
            missed = 0 if self._answers() else missed + 1
            if missed >= self.settings.ping_failures:
                return f"no answer to {missed} health checks"
            if missed and not self._stopping.is_set():
                self._notify("engine.health_missed", pid=child.pid, missed=missed)
            self._keep_reserve()
        if child.exit_code == -signal.SIGKILL:
            self.advice = KILLED
            return KILLED
        return f"exited with {child.exit_code}"

    def _answers(self) -> bool:
        """Return whether the engine responds to a health check; any HTTP status counts."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        connection = HttpConnection(
            f"http://{host}:{self.port}",
            headers={"X-ClickHouse-Key": self.secret},
            timeout=self.settings.ping_timeout_seconds,
            proxies=False,
        )
        try:
            connection.request("GET", "/health")
        except HTTP_ERRORS:
            return False
        finally:
            connection.close()
        return True

    def _warn_of_too_much_memory(self) -> None:
        """Report a memory setting above the limit. It is still used, since there may be swap."""
        given, usable = self.settings.max_server_memory, usable_memory()
        if given > usable:
            self._notify(
                "engine.memory_above_limit", memory_bytes=given, limit_bytes=usable, advice=TOO_MUCH
            )

    def _keep_reserve(self) -> None:
        """Keep a reserve only under a cgroup limit: machine-wide the kernel waits for its victim."""
        if usable_memory() < machine_memory() and self._reserve.keep():
            self._notify("engine.memory_reserve_taken", advice=SHORT)

    def _notify(self, event: str, **fields: object) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event, fields)
        except Exception as error:  # noqa: BLE001 - a broken logger must not leave the engine unwatched
            self.last_error = f"on_event failed on {event}: {error}"

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class _Child:
    """Engine process with its pipes and last output."""

    def __init__(
        self, settings: EngineSettings, listener: socket.socket, *, on_line: Callable[[str], None]
    ) -> None:
        descriptor = listener.fileno()
        # An absolute path, as the child changes its working directory.
        resolved = replace(settings, store_dir=settings.store_dir.resolve())
        command = [sys.executable, "-m", "tracereel_collector.engine"]
        command += ["--listen-fd", str(descriptor), "--parent", str(os.getpid())]
        command += ["--settings", resolved.to_json()]
        self.gone = threading.Event()
        """Set when the process has exited, or to make the monitor return."""
        self._words: deque[str] = deque(maxlen=20)
        self._on_line = on_line
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(descriptor,),
            env={"JE_MALLOC_CONF": KEEP_MEMORY, **child_environment()},
        )
        self.pid = self._process.pid
        kill_first(self.pid)
        self._listening = threading.Thread(target=self._listen, name="engine-stderr", daemon=True)
        self._listening.start()

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def last_words(self) -> str:
        return self._words[-1] if self._words else ""

    def wait_ready(self, seconds: float, stopping: threading.Event) -> str | None:
        """Wait for the ready line; return None, or the problem."""
        if wait_ready(self._process, seconds=seconds, stopping=stopping):
            return None
        if stopping.is_set():
            return "stopped while starting"
        if self.exit_code is None:
            message = f"was not ready within {seconds:g} s"
        else:
            self._listening.join(2.0)
            message = f"exited with {self.exit_code} while starting"
            if self.exit_code == EXIT_STORE_IN_USE and self.last_words:
                return self.last_words
        return f"the engine {message}: {self.last_words or 'no message'}"

    def end(self, *, grace: float) -> None:
        """Terminate the process, and kill it after `grace` seconds."""
        end_process(self._process, grace=grace)
        self._listening.join(2.0)

    def _listen(self) -> None:
        """Forward lines of stderr; its end means that the process exits."""
        assert self._process.stderr is not None  # noqa: S101 - stderr is a pipe
        with self._process.stderr as pipe:
            for raw in pipe:
                if line := raw.decode("utf-8", "replace").rstrip()[:2000]:
                    self._words.append(line)
                    self._on_line(line)
        self._process.wait()
        self.gone.set()


def keep_secret(path: Path) -> str:
    """Return the secret of this store, created once and readable by its owner only."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        secret = path.read_text(encoding="ascii").strip()
        if secret:
            path.chmod(0o600)
            return secret
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    secret = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{secret}\n")
        file.flush()
        os.fsync(file.fileno())
    return secret


def _check_path(store_dir: Path) -> None:
    """Refuse paths with ? or &. chDB parses its path as a URL and would use another directory."""
    if found := sorted(set("?&") & set(str(store_dir.resolve()))):
        raise EngineStartError(
            f"the store directory {store_dir} contains {' and '.join(found)}",
            hint="choose a path without ? and &",
        )
