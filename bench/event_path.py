"""Count the functions and modules that one event passes: from a decorated call to the row and back.

    python bench/event_path.py [--list] [--tree DIR]

A program with one decorated call and a collector with one worker run under a profile function. A
function carries the event if its arguments or its result contain the marked text of the call; the
others (metrics, heartbeats, ledgers, timers) only run because of it. What runs while the collector is
idle is left out. `--list` prints every function in the order of its first call, carriers with a star;
`--tree` measures another checkout.
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
_target, _mark = os.environ.get("EVENT_PATH_FILE"), "event-path-mark"
def _carries(value, depth=4):
    if isinstance(value, str):
        return _mark in value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _mark.encode() in bytes(value)
    if depth == 0 or value is None or isinstance(value, (int, float, type)) or callable(value):
        return False
    if isinstance(value, dict):
        return any(_carries(each, depth - 1) for each in list(value.values())[:200])
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_carries(each, depth - 1) for each in list(value)[:200])
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    fields = [getattr(value, name, None) for name in names if isinstance(name, str)]
    return any(_carries(each, depth - 1) for each in [*fields, *getattr(value, "__dict__", {}).values()])
if _target:
    _seen, _on, _looking = {}, [False], threading.local()
    def _profile(frame, event, argument):
        if not _on[0] or event not in ("call", "return") or getattr(_looking, "now", False):
            return
        code = frame.f_code
        if "tracereel" not in code.co_filename or code.co_name.startswith("<"):
            return
        key = (code.co_filename, code.co_qualname)
        outer = frame.f_back
        while outer and "tracereel" not in outer.f_code.co_filename:
            outer = outer.f_back
        caller = outer and (outer.f_code.co_filename, outer.f_code.co_qualname)
        if _seen.get(key) and _seen.get(caller) == 2:
            return
        _looking.now = True
        try:
            _seen.setdefault(key, 0)
            given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]
            local = frame.f_locals
            values = [argument] if event == "return" else [local.get(n) for n in given if n != "self"]
            if any(_carries(value) for value in values):
                _seen[key] = max(_seen[key], 1)
                if caller in _seen:
                    _seen[caller] = 2
        except Exception:
            pass
        finally:
            _looking.now = False
    def _toggle(*_):
        _on[0] = not _on[0]
        if not _on[0]:
            with open(f"{_target}.{os.getpid()}.part", "w") as file:
                file.writelines(f"{n}\\t{f}\\t{c}\\n" for (n, f), c in _seen.items())
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

agent("why? event-path-mark")
tracereel.flush(30)
signal.raise_signal(signal.SIGUSR2)
agent("why? event-path-mark")
tracereel.flush(30)
signal.raise_signal(signal.SIGUSR2)
"""
Functions = dict[tuple[str, str], int]
"""Functions by file and name: 2 if they hand the event on, 1 if they only take or return it."""


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
    rows = (line.split("\t") for line in path.read_text().splitlines())
    return {(file, function): int(carries) for file, function, carries in rows}


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
    parser.add_argument("--tree", type=Path, default=ROOT)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "sitecustomize.py").write_text(HOOK)
        path = os.pathsep.join([folder, str(args.tree / "sdk"), str(args.tree / "collector")])
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
    path = read(sdk_file) | {each: carries for each, carries in stored.items() if each not in idle}
    if show:
        for (name, function), carries in path.items():
            print(f"{' .*'[carries]} {name.rpartition('/tracereel')[2]}  {function}")
    for least, label in ((2, "hand the event on"), (1, "take or return it"), (0, "run for it")):
        functions = [each for each, carries in path.items() if carries >= least]
        print(
            f"{len(functions)} functions in {len({name for name, _ in functions})} modules {label}"
        )


if __name__ == "__main__":
    main()
