"""Program with irreversible tools that write to a ledger outside of the process, and its replays."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracereel.fleet import file as fleet_file
from tracereel.tape.format import load

ROOT = Path(__file__).parents[2]
SDK = ROOT / "sdk"

PROGRAM = '''
import asyncio, json, multiprocessing, os, queue, socket, subprocess, sys, threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import tracereel
from tracereel import traced_agent, traced_llm, traced_step, traced_tool

LEDGER = Path(os.environ["LEDGER"])
PLACE = os.environ.get("PLACE", "none")
CHANGED = bool(os.environ.get("CHANGED"))


{decorator}
def wire(amount):
    with LEDGER.open("a") as file:
        file.write(f"{{PLACE}} {{amount}}\\n")
    return "sent"


class Wiring:
    @traced_tool("wire_method", effect="irreversible")
    def send(self, amount):
        with LEDGER.open("a") as file:
            file.write(f"method {{amount}}\\n")


@traced_tool("stream_wire", effect="write")
def stream_wire(amount):
    with LEDGER.open("a") as file:
        file.write(f"stream {{amount}}\\n")
    yield amount


@traced_tool("look", effect="read")
def look(text):
    if "nested" in PLACE.split(","):
        wire(2)
    return text.upper()


@traced_llm("model-a")
def ask(prompt):
    if "nested_model" in PLACE.split(","):
        wire(3)
    return "yes"


jobs = queue.Queue()


def work():
    while (job := jobs.get()) is not None:
        try:
            job()
        except BaseException:
            pass
        finally:
            jobs.task_done()


pool = ThreadPoolExecutor(1)


def start_threads():
    threading.Thread(target=work, daemon=True).start()
    pool.submit(int).result()


if not os.environ.get("NO_THREADS"):
    start_threads()
connection = None
if "connection" in PLACE.split(","):
    try:
        connection = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), timeout=5)
    except BaseException:
        pass
if "framework" in PLACE.split(","):
    from langchain_core.tools import tool

    @tool
    def pay(amount: int) -> str:
        """Pay an amount."""
        with LEDGER.open("a") as file:
            file.write("framework\\n")
        return "paid"


def quietly(function, *args):
    try:
        function(*args)
    except BaseException:
        pass


def in_child():
    quietly(wire, 4)


def elsewhere():
    """Call the tool where no tape serves it."""
    if os.environ.get("NO_THREADS"):
        start_threads()
    for place in PLACE.split(","):
        in_place(place)


def in_place(PLACE):
    if PLACE == "thread":
        thread = threading.Thread(target=quietly, args=(wire, 1))
        thread.start()
        thread.join()
    elif PLACE == "queue":
        jobs.put(lambda: wire(1))
        jobs.join()
    elif PLACE == "pool":
        quietly(pool.submit(wire, 1).result)
    elif PLACE == "spawn":
        process = multiprocessing.get_context("spawn").Process(target=in_child)
        process.start()
        process.join()
    elif PLACE == "fork":
        process = multiprocessing.get_context("fork").Process(target=in_child)
        process.start()
        process.join()
    elif PLACE == "process_pool":
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as workers:
            workers.submit(in_child).result()
    elif PLACE in ("subprocess", "environment"):
        env = None
        if PLACE == "environment":
            env = {{name: os.environ[name] for name in ("LEDGER", "PYTHONPATH", "PATH")}}
        subprocess.run([sys.executable, "-c", "import shop; shop.in_child()"], env=env, check=True)
    elif PLACE == "cleared":
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update({{name: before[name] for name in ("LEDGER", "PYTHONPATH", "PATH")}})
        try:
            process = multiprocessing.get_context("spawn").Process(target=in_child)
            process.start()
            process.join()
            os.system(f"{{sys.executable}} -c 'import shop; shop.in_child()'")
        finally:
            os.environ.update(before)
    elif PLACE == "exec":
        if (child := os.fork()) == 0:
            env = {{name: os.environ[name] for name in ("LEDGER", "PYTHONPATH", "PATH")}}
            try:
                os.execve(sys.executable, [sys.executable, "-c", "import shop; shop.in_child()"], env)
            except BaseException:
                os._exit(0)
        os.waitpid(child, 0)
    elif PLACE == "method":
        jobs.put(lambda: Wiring().send(1))
        jobs.join()
    elif PLACE == "generator":
        jobs.put(lambda: list(stream_wire(1)))
        jobs.join()
    elif PLACE == "coroutine":
        jobs.put(lambda: asyncio.run(later()))
        jobs.join()
    elif PLACE == "block":
        jobs.put(in_block)
        jobs.join()
    elif PLACE == "framework":
        quietly(pay.invoke, {{"amount": 1}})
        jobs.put(lambda: pay.invoke({{"amount": 1}}))
        jobs.join()
    elif PLACE == "connection" and connection is not None:
        quietly(connection.sendall, b"money")
        jobs.put(lambda: connection.sendall(b"money"))
        jobs.join()
    elif PLACE == "exit":
        import atexit

        atexit.register(quietly, wire, 1)


@traced_tool("later", effect="irreversible")
async def later():
    with LEDGER.open("a") as file:
        file.write("later\\n")


def in_block():
    with traced_tool("block_tool", effect="irreversible"):
        with LEDGER.open("a") as file:
            file.write("block\\n")


@traced_agent("clerk")
def clerk(number):
    ask("which " + ("other " if CHANGED else "") + number)
    found = look(number)
    elsewhere()
    {call}
    return found


if __name__ == "__main__":
    tracereel.configure(record="all", endpoint="http://127.0.0.1:9", exit_timeout=0)
    os.environ["PLACE"] = PLACE = "none"
    clerk("a-17")
'''
RECORD = """
import sys
sys.path.insert(0, {tests!r})
from tests.support.replay_trial import recording
from tracereel.tape import parse
import shop

with recording() as events:
    shop.PLACE = "none"
    shop.clerk("a-17")
parse(events).save("run.tape.ndjson")
"""
DECORATOR = '@traced_tool("wire", effect="irreversible")'
TEST = """
import pytest


@pytest.mark.tracereel_tape("run.tape.ndjson")
def test_run(tape_run):
    tape_run.call()
    assert tape_run.report.identical, str(tape_run.report)
"""
FULL = bool(os.environ.get("SAFETY_FULL"))
"""Whether each place is tried alone; else several at a time (`make replay-corpus` tries each)."""
PLACES = [
    *("thread", "queue", "pool", "spawn", "fork", "process_pool", "subprocess", "environment"),
    *(
        "cleared",
        "exec",
        "method",
        "generator",
        "coroutine",
        "block",
        "framework",
        "connection",
        "exit",
    ),
]
LIVE = ["nested", "nested_model", "queue", "thread", "spawn"]
MODES = [[], ["--mode", "report"], ["--mode", "live-after"], ["--fork"]]


def places(given: list[str]) -> Any:
    """Return the places to try, each alone or all at once."""
    return pytest.mark.parametrize("place", given if FULL else [",".join(given)])


def modes(*given: list[str]) -> Any:
    """Return the modes to try, each or the last."""
    return pytest.mark.parametrize("mode", given if FULL else given[-1:], ids=" ".join)


class Shop:
    """Program with a tool that writes to a ledger outside of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.write()
        script = RECORD.format(tests=str(ROOT))
        done = self.python(["-c", script], PLACE="none")
        assert done.returncode == 0, done.stderr
        assert self.ledger.read_text() == "none 9\n"
        self.ledger.unlink()

    def write(self, decorator: str = DECORATOR, call: str = "wire(9)") -> None:
        (self.folder / "shop.py").write_text(PROGRAM.format(decorator=decorator, call=call))
        (self.folder / "test_shop.py").write_text(TEST)

    def python(self, words: list[str], **variables: str) -> Any:
        keep = {name: value for name, value in os.environ.items() if "TRACEREEL" not in name}
        env = {**keep, "PYTHONPATH": f"{SDK}:{self.folder}", "LEDGER": str(self.ledger)}
        env["PORT"] = str(self.listener.getsockname()[1])
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**env, "TRACEREEL_SPOOL_DIR": str(self.folder / "spool"), **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def replay(self, *options: str, **variables: str) -> tuple[int, dict[str, Any]]:
        words = ["-m", "tracereel", "replay", "run.tape.ndjson", "--run", "--json", *options]
        done = self.python(words, **variables)
        lines = done.stdout.splitlines()
        assert lines, done.stderr
        return done.returncode, json.loads(lines[-1])

    def pytest(self, *options: str, **variables: str) -> Any:
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", *options]
        return self.python([*words, "test_shop.py"], **variables)

    def fleet(self, *options: str, **variables: str) -> dict[str, Any]:
        path = self.folder / "runs.fleet"
        tape = load(self.folder / "run.tape.ndjson")
        with fleet_file.writing(path, {}) as writer:
            writer.add(tape.trace_id, [json.loads(line) for line in tape.lines()])
        words = ["-m", "tracereel", "fleet", "run", str(path), "--json", "--repeats", "1", *options]
        done = self.python(words, **variables)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def update(self, **variables: str) -> Any:
        tape = (self.folder / "run.tape.ndjson").read_bytes()
        try:
            return self.pytest("--tracereel-update", **{"CI": "", **variables})
        finally:
            (self.folder / "run.tape.ndjson").write_bytes(tape)

    def called(self) -> str:
        """Return what was written to the ledger, and sent to the listener."""
        written = self.ledger.read_text() if self.ledger.exists() else ""
        return written + self._received().decode()

    def _received(self) -> bytes:
        found = b""
        while True:
            try:
                connection, _ = self.listener.accept()
            except BlockingIOError:
                return found
            with connection:
                connection.settimeout(10)
                found += connection.recv(100)
