"""Count the functions and modules that one event passes: from a decorated call to the row and back.

    python bench/event_path.py [--list]

A program with one decorated call and a collector with one worker run under a profile function. What
runs while the collector is idle is left out. `--list` prints every function in the order of its first call.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HOOK = """
import os, signal, sys, threading
_target = os.environ.get("EVENT_PATH_FILE")
if _target:
    _seen, _on = {}, [False]
    def _profile(frame, event, _argument):
        if _on[0] and event == "call":
            code = frame.f_code
            if "tracereel" in code.co_filename and not code.co_name.startswith("<"):
                _seen.setdefault((code.co_filename, code.co_qualname))
    def _toggle(*_):
        _on[0] = not _on[0]
        if not _on[0]:
            with open(f"{_target}.{os.getpid()}.part", "w") as file:
                file.writelines(f"{name}\\t{function}\\n" for name, function in _seen)
            os.replace(f"{_target}.{os.getpid()}.part", f"{_target}.{os.getpid()}")
            _seen.clear()
    sys.setprofile(_profile)
    threading.setprofile(_profile)
    signal.signal(signal.SIGUSR2, _toggle)
"""
PROGRAM = """
import signal
import tracereel
tracereel.configure()

@tracereel.traced_agent("path")
def agent(question):
    return question

agent("why?")
tracereel.flush(30)
signal.raise_signal(signal.SIGUSR2)
agent("why?")
tracereel.flush(30)
signal.raise_signal(signal.SIGUSR2)
"""
Functions = dict[tuple[str, str], None]


def wait_for(what: str, found: Any, seconds: float = 60.0) -> Any:
    """Poll until a value is there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.05)
    sys.exit(f"no {what} within {seconds:g} s")


def read(path: Path) -> Functions:
    """Read the functions that a process has written down."""
    return {tuple(line.split("\t")): None for line in path.read_text().splitlines()}  # type: ignore[misc]


def window(pid: int, target: Path, work: Any) -> Functions:
    """Return the functions that a process calls while `work` runs."""
    file = target.with_name(f"{target.name}.{pid}")
    file.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    work()
    os.kill(pid, signal.SIGUSR2)
    wait_for("profile", file.exists)
    return read(file)


def main() -> None:
    """Run the program and the collector, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "sitecustomize.py").write_text(HOOK)
        path = os.pathsep.join([folder, str(ROOT / "sdk"), str(ROOT / "collector")])
        base = {**os.environ, "PYTHONPATH": path, "TRACEREEL_SPOOL_DIR": str(place / "spool")}
        target = place / "collector"
        command = [sys.executable, "-m", "tracereel", "serve", "--port", "0", "--grpc-port", "off"]
        server = subprocess.Popen(
            [*command, "--workers", "1", "--data-dir", str(place / "data")],
            env={**base, "EVENT_PATH_FILE": str(target)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            measure(server, base, target, place, show=args.list)
        finally:
            server.terminate()
            server.wait(60)


def measure(
    server: "subprocess.Popen[str]", base: dict[str, str], target: Path, place: Path, *, show: bool
) -> None:
    """Send one event through a warm collector and count what it passes."""
    assert server.stdout is not None
    line = next(line for line in server.stdout if "http://" in line)
    url = next(word for word in line.split() if word.startswith("http://"))
    environ = {**base, "TRACEREEL_ENDPOINT": url}

    def newest() -> Any:
        with urllib.request.urlopen(f"{url}/v1/traces?agent=path", timeout=30) as response:
            return json.load(response)["traces"]

    def send() -> None:
        before = len(newest())
        own = {**environ, "EVENT_PATH_FILE": str(place / "sdk")}
        subprocess.run([sys.executable, "-c", PROGRAM], env=own, check=True)
        found = wait_for("run", lambda: (n := newest()) and len(n) > before and n)
        with urllib.request.urlopen(f"{url}/v1/replay/{found[0]['trace_id']}") as response:
            response.read()

    send()
    for old in place.glob("sdk.*"):
        old.unlink()

    def idle_work() -> None:
        newest()
        time.sleep(6)

    idle = window(server.pid, target, idle_work)
    stored = window(server.pid, target, send)
    (sdk_file,) = place.glob("sdk.*")
    path = [*read(sdk_file), *(each for each in stored if each not in idle)]
    modules = {name for name, _ in path}
    if show:
        for name, function in path:
            print(f"{name.rpartition('/tracereel')[2]}  {function}")
    print(f"{len(path)} functions in {len(modules)} modules")


if __name__ == "__main__":
    main()
