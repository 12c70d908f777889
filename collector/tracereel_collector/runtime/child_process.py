"""Child processes that run our modules: environment, ready line and end."""

import contextlib
import os
import select
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

READY: Final = "ready"
"""Line that a child prints on stdout when it accepts requests."""
EXIT_ORPHANED: Final = 3
"""Exit status of a child whose parent has died."""


def child_environment() -> dict[str, str]:
    """Return an environment in which a child finds this package."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def wait_ready(
    process: "subprocess.Popen[bytes]", *, seconds: float, stopping: threading.Event
) -> bool:
    """Wait for the ready line; return False if the process exits, is late, or `stopping` is set."""
    assert process.stdout is not None  # noqa: S101 - stdout is a pipe
    # Unlike `select`, `poll` has no limit of 1024 descriptors, which many connections exceed.
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not stopping.is_set():
        if poll.poll(200):
            if process.stdout.readline().decode("utf-8", "replace").strip() == READY:
                return True
            process.wait()
            return False
    return False


def end_process(process: "subprocess.Popen[bytes]", *, grace: float) -> None:
    """Terminate a process, kill it after `grace` seconds, close stdin and stdout; idempotent."""
    if grace > 0:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # the reader of unflushed bytes is gone
                pipe.close()


def exit_with_parent(parent: int) -> None:
    """Exit at once when the parent dies, from a thread of its own.

    The parent's death closes stdin. Its pid is checked too: a sibling may hold the pipe open.
    """

    def watch() -> None:
        while os.getppid() == parent:
            readable, _, _ = select.select([0], [], [], 1.0)
            if readable and not os.read(0, 4096):
                break
        os._exit(EXIT_ORPHANED)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()
