"""Real collector in its own process, as a user would start it."""

import atexit
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support import preloaded
from tests.support.waiting import wait_until

STORE = Path("store", "clickhouse")


@dataclass
class Answer:
    """Status, headers and body of one response."""

    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


def http(method, url, body=None, headers=None, timeout=30):
    """Send one request; error statuses are responses, not exceptions."""
    request = urllib.request.Request(url, data=body, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return Answer(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


def free_port():
    """Return a port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@dataclass
class CollectorProcess:
    """`tracereel serve` as a child process; the data directory outlives it."""

    data_dir: Path
    environ: dict = field(default_factory=dict)
    arguments: tuple = ()
    port: int = 0
    grpc_port: int = 0
    fresh: bool = False
    """Whether it is a new process and creates its tables, as users have it; else they are copied."""
    process: subprocess.Popen | preloaded.ForkedProcess | None = None
    output: list = field(default_factory=list)
    launcher: tuple = ()
    """Words before the command."""
    preloaded: bool = True
    """Whether it is forked from a process that has its modules, which is faster than a new process."""
    start_seconds: float = 120
    """Longest time until it prints its URL."""

    def start(self, *, wait=True):
        self.output = []
        if not (self.fresh or "--store" in self.arguments):
            give_tables(self.data_dir)
        arguments = ["serve", "--port", str(self.port), "--data-dir", str(self.data_dir)]
        arguments += self.arguments
        environ = {
            **os.environ,
            # Concurrent collectors would need the same gRPC port, so most have none.
            "TRACEREEL_GRPC_PORT": str(self.grpc_port or "off"),
            # Tests wait for their data, so batches need not.
            "TRACEREEL_LINGER_SECONDS": "0.25",
            "TRACEREEL_UNREAD_SECONDS": "0",
            **self.environ,
        }
        if self._is_forked(environ):
            self.process = preloaded.ForkedProcess(arguments, environ)
        else:
            self.process = subprocess.Popen(
                [*self.launcher, sys.executable, "-m", "tracereel", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environ,
                text=True,
            )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        if wait:
            wait_until(
                lambda: self.url or self.ended(),
                timeout=self.start_seconds,
                message="no URL was printed",
            )
        return self

    def _is_forked(self, environ):
        alone = self.fresh or self.launcher or not self.preloaded
        return not alone and preloaded.can_start(environ)

    def _read(self, process):
        with process.stdout as lines:
            for line in lines:
                self.output.append(line.rstrip())

    def ended(self):
        """Fail if the process has ended by itself."""
        if self.process.poll() is not None:
            raise AssertionError(f"exit {self.process.returncode}: {self.output}")

    @property
    def url(self):
        found = re.search(r"collector at (http://\S+)", "\n".join(self.output))
        return found.group(1) if found else None

    def engines(self):
        """Return the live engine processes of this collector (one, or none during a restart)."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            try:
                if "tracereel_collector.engine" in child.cmdline():
                    found.append(child)
            except psutil.Error:
                continue  # it died meanwhile
        return found

    def kill(self):
        """Kill with SIGKILL: no flush, no cleanup."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, number=signal.SIGTERM):
        """Stop in order; return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def post_events(self, events, *, headers=None, wait=True, raw=None):
        body = raw if raw is not None else b"\n".join(json.dumps(each).encode() for each in events)
        return http(
            "POST",
            f"{self.url}/v1/events{'?wait=stored&timeout=60' if wait else ''}",
            body,
            {"Content-Type": "application/x-ndjson", **(headers or {})},
            timeout=90 if wait else 30,
        )

    def replay(self, trace_id, **options):
        return http("GET", f"{self.url}/v1/replay/{trace_id}", **options)

    def metric(self, name, **labels):
        """Return the sum of a metric's samples with these labels."""
        text = http("GET", f"{self.url}/metrics").body.decode()
        lines = text.splitlines()
        known = any(line.split(" ")[:3:2] == ["#", name] for line in lines)
        found = [
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.split("{")[0].split(" ")[0] == name
            and all(f'{key}="{value}"' in line for key, value in labels.items())
        ]
        if not found and not known:
            raise AssertionError(f"{name} {labels} is not exported")
        return sum(found)


@functools.cache
def _made_tables():
    """Return the store of a collector that was started and stopped: every table, no rows."""
    folder = Path(tempfile.mkdtemp(prefix="tracereel-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    assert CollectorProcess(folder, fresh=True).start().stop() == 0
    return folder / STORE


def give_tables(data_dir):
    """Copy a store with tables into a data directory, because creating tables is slow."""
    if not (data_dir / STORE).parent.exists():
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Keep symbolic links: chDB does not open a store copied through them.
        shutil.copytree(_made_tables(), data_dir / STORE, symlinks=True)
