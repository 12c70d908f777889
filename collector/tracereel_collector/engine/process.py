"""Engine process: lock, chDB, HTTP server, and its three ways to exit.

SIGTERM: finish running requests, close chDB, exit 0.
The parent's pipe closes: exit at once, so that a successor can take lock and port.
Another process holds the store: one line on stderr, exit 2.
"""

import argparse
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tracereel_collector.engine.lock import StoreInUseError, StoreLock
from tracereel_collector.engine.refusals import Rules
from tracereel_collector.engine.settings import (
    BACKUP_DIR,
    DATA_DIR,
    LOCK_FILE,
    SECRET_FILE,
    WORK_DIR,
    EngineSettings,
)
from tracereel_collector.runtime.child_process import READY, exit_with_parent
from tracereel_collector.runtime.permissions import make_files_private

if TYPE_CHECKING:
    from tracereel_collector.engine.handles import HandlePool

EXIT_FAILED = 1
EXIT_STORE_IN_USE = 2


def main(arguments: list[str] | None = None) -> int:
    """Run the engine until SIGTERM and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tracereel_collector.engine")
    parser.add_argument("--listen-fd", type=int, required=True, help="inherited listening socket")
    parser.add_argument("--parent", type=int, required=True, help="pid of the supervisor")
    parser.add_argument("--settings", required=True, help="EngineSettings as JSON")
    given = parser.parse_args(arguments)
    make_files_private()
    # Ctrl-C reaches the whole process group, but the parent decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exit_with_parent(given.parent)
    settings = EngineSettings.from_json(given.settings)
    try:
        lock = StoreLock.acquire(
            settings.store_dir / LOCK_FILE, wait_seconds=settings.lock_wait_seconds
        )
    except StoreInUseError as error:
        _complain(str(error))
        return EXIT_STORE_IN_USE
    try:
        _serve(settings, given.listen_fd)
    except Exception as error:  # noqa: BLE001 - the supervisor shows this line to the user
        _complain(
            f"the engine cannot run on {settings.store_dir / DATA_DIR}: {type(error).__name__}: {error}"
        )
        return EXIT_FAILED
    lock.release()
    # No interpreter shutdown: the engine's threads, or a statement still running, can hang it.
    os._exit(0)


def _serve(settings: EngineSettings, listen_fd: int) -> None:
    """Serve requests until SIGTERM."""
    for name in (WORK_DIR, BACKUP_DIR):
        (settings.store_dir / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    # chDB writes __cache__ folders into the working directory.
    os.chdir(settings.store_dir / WORK_DIR)
    secret = (settings.store_dir / SECRET_FILE).read_text(encoding="ascii").strip()
    # Only the ready line goes to stdout; other output goes to stderr.
    ready = os.dup(1)
    os.dup2(2, 1)

    # Lazy import: the supervisor imports this module and must not load chDB.
    from tracereel_collector.engine.execute import Executor
    from tracereel_collector.engine.handles import HandlePool
    from tracereel_collector.engine.server import Backend, Server

    pool = HandlePool(location(settings), base=base_settings(settings), idle=settings.idle_handles)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name = settings.database.replace("`", "")
    pool.command(f"CREATE DATABASE IF NOT EXISTS `{name}` ENGINE = Atomic")
    health = threading.Lock()

    def alive() -> None:
        with health:
            pool.command("SELECT 1")

    backend = Backend(
        executor=Executor(
            pool, max_queries=settings.max_queries, queue_seconds=settings.queue_seconds
        ),
        rules=_rules(pool),
        secret=secret,
        timezone=pool.command("SELECT timezone()").decode().strip(),
        alive=alive,
    )
    server = Server(socket.socket(fileno=listen_fd), backend, settings)
    server.start()
    os.write(ready, f"{READY}\n".encode())
    os.close(ready)
    stop.wait()
    if server.stop(seconds=settings.stop_seconds):
        # Only when idle: closing chDB during a statement can hang or crash.
        pool.close()


def location(settings: EngineSettings) -> str:
    """Return chDB's connection string, with server options as URL parameters."""
    threads = settings.background_threads
    options = {
        "max_server_memory_usage": settings.server_memory,
        "mark_cache_size": settings.mark_cache,
        "background_pool_size": threads,
        "background_schedule_pool_size": 2 * threads,
        "backups.allowed_path": settings.store_dir / BACKUP_DIR,
    }
    return f"{settings.store_dir / DATA_DIR}?{urlencode(options, safe='/')}"


def base_settings(settings: EngineSettings) -> dict[str, str]:
    """Return the default settings of every request, which it may override."""
    return {
        "async_insert": "0",
        "implicit_select": "0",
        "max_execution_time": str(settings.max_query_seconds),
        "max_memory_usage": str(int(settings.server_memory * 0.8)),
        # ALTER returns when it is done on every replica: migrations rely on that.
        "mutations_sync": "2",
        "alter_sync": "2",
    }


def _rules(pool: "HandlePool") -> Rules:
    functions = pool.command("SELECT name FROM system.table_functions")
    engines = pool.command(
        "SELECT name FROM system.table_engines UNION ALL SELECT name FROM system.database_engines"
    )
    return Rules.of(table_functions=functions.decode().split(), engines=engines.decode().split())


def _complain(message: str) -> None:
    sys.stderr.write(" ".join(message.split()) + "\n")
    sys.stderr.flush()
