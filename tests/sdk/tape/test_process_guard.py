"""Commands that replay runs call no tool with side effects, wherever in the process it is."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

SDK = Path(__file__).parents[3] / "sdk"

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


worker = threading.Thread(target=work, daemon=True)
worker.start()
pool = ThreadPoolExecutor(1)
pool.submit(int).result()


def quietly(function, *args):
    try:
        function(*args)
    except BaseException:
        pass


def in_child():
    quietly(wire, 4)


def elsewhere():
    """Call the tool where no tape serves it."""
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
    *("exec", "method", "generator", "coroutine", "block", "exit"),
]
LIVE = ["nested", "nested_model", "queue", "thread", "spawn"]
MODES = [[], ["--mode", "report"], ["--mode", "live-after"], ["--fork"]]


def places(given: list[str]) -> Any:
    """Return the places to try, each alone or all at once."""
    return pytest.mark.parametrize("place", given if FULL else [",".join(given)])


def modes(*given: list[str]) -> Any:
    return pytest.mark.parametrize("mode", given if FULL else given[-1:], ids=" ".join)


class Shop:
    """Program with a tool that writes to a ledger outside of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.write()
        script = RECORD.format(tests=str(Path(__file__).parents[3]))
        done = self._python(["-c", script], PLACE="none")
        assert done.returncode == 0, done.stderr
        assert self.ledger.read_text() == "none 9\n"
        self.ledger.unlink()

    def write(self, decorator: str = DECORATOR, call: str = "wire(9)") -> None:
        (self.folder / "shop.py").write_text(PROGRAM.format(decorator=decorator, call=call))
        (self.folder / "test_shop.py").write_text(TEST)

    def _python(self, words: list[str], **variables: str) -> Any:
        keep = {name: value for name, value in os.environ.items() if "TRACEREEL" not in name}
        env = {**keep, "PYTHONPATH": f"{SDK}:{self.folder}", "LEDGER": str(self.ledger)}
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
        done = self._python(words, **variables)
        lines = done.stdout.splitlines()
        assert lines, done.stderr
        return done.returncode, json.loads(lines[-1])

    def pytest(self, *options: str, **variables: str) -> Any:
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", *options]
        return self._python([*words, "test_shop.py"], **variables)

    def called(self) -> str:
        return self.ledger.read_text() if self.ledger.exists() else ""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(autouse=True)
def _clean(shop: Shop) -> Any:
    shop.write()
    yield
    shop.ledger.unlink(missing_ok=True)


def test_an_unchanged_run_is_the_same(shop: Shop) -> None:
    status, report = shop.replay()

    assert (status, report["verdict"]) == (0, "same"), report
    assert shop.called() == ""


@places(PLACES)
def test_strict_replay_calls_no_tool_elsewhere(shop: Shop, place: str) -> None:
    status, report = shop.replay(PLACE=place)

    assert shop.called() == ""
    if place != "exit":  # it runs after the report
        assert status == 1, report
        # A call in a thread that knows the run is one that is not on the tape.
        assert report["verdict"] in ("inconclusive", "changed")
        assert {each["why"] for each in report["reasons"]} <= {"refused", "extra"}


@places(PLACES)
@modes(*MODES[1:])
def test_other_modes_call_no_tool_elsewhere(shop: Shop, mode: list[str], place: str) -> None:
    shop.replay(*mode, PLACE=place, CHANGED="1")

    assert shop.called() == ""


@places(LIVE)
@modes(["--mode", "live-after"], ["--fork-at", "1"])
def test_live_calls_call_no_tool_inside(shop: Shop, mode: list[str], place: str) -> None:
    status, report = shop.replay(*mode, PLACE=place, CHANGED="1")

    assert shop.called() == ""
    assert status == 1
    assert any(each["why"] == "refused" for each in report["reasons"])


@places(PLACES)
def test_pytest_calls_no_tool_elsewhere(shop: Shop, place: str) -> None:
    done = shop.pytest(PLACE=place)

    assert shop.called() == ""
    assert done.returncode == (0 if place == "exit" else 1), done.stdout
    assert (
        place == "exit"
        or "would run for real" in done.stdout
        or "is not on the tape" in done.stdout
    )


@places([*LIVE, "none"])
def test_an_update_calls_no_tool(shop: Shop, place: str) -> None:
    tape = (shop.folder / "run.tape.ndjson").read_bytes()
    keep = {"CI": ""}
    try:
        done = shop.pytest("--tracereel-update", PLACE=place, **keep)
    finally:
        (shop.folder / "run.tape.ndjson").write_bytes(tape)

    assert shop.called() == ""
    assert done.returncode == 1, done.stdout


@pytest.mark.parametrize(
    ("decorator", "call"),
    [
        ("", "wire(9)"),
        ("@traced_step('wire')", "wire(9)"),
        ("@traced_agent('wire')", "wire(9)"),
    ][0 if FULL else 1 :],
)
@modes(*MODES)
def test_a_tool_without_its_decorator_stops_the_replay(
    shop: Shop, decorator: str, call: str, mode: list[str]
) -> None:
    shop.write(decorator, call)
    status, report = shop.replay(*mode)

    assert shop.called() == ""
    assert (status, report["verdict"]) == (1, "inconclusive")
    assert "the tool wire (shop:wire) has no decorator any more" in report["reasons"][0]["text"]
    assert "has no decorator any more" in shop.pytest().stdout
    assert shop.called() == ""


def test_a_tool_that_is_gone_stops_the_replay(shop: Shop) -> None:
    source = (shop.folder / "shop.py").read_text()
    (shop.folder / "shop.py").write_text(
        source.replace(DECORATOR, "").replace("def wire(", "def pay(").replace("wire(", "pay(")
    )
    status, report = shop.replay()

    assert shop.called() == ""
    assert (status, report["verdict"]) == (1, "inconclusive")
    assert "the tool wire (shop:wire) is no longer there" in report["reasons"][0]["text"]


def test_a_tool_whose_effect_was_lowered_is_still_refused(shop: Shop) -> None:
    shop.write(DECORATOR.replace("irreversible", "read"))
    shop.replay("--fork-at", "1")

    assert shop.called() == ""


def test_an_allowed_tool_runs(shop: Shop) -> None:
    status, _ = shop.replay("--allow", "wire", PLACE="queue")

    assert (status, shop.called()) == (0, "queue 1\n")


CONNECTED = textwrap.dedent(
    """
    import socket, ssl, threading

    listener = socket.create_server(("127.0.0.1", 0))
    before = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()

    import pytest
    import shop


    def send():
        before.sendall(b"money")


    @pytest.mark.tracereel_tape("run.tape.ndjson")
    def test_run(tape_run, monkeypatch):
        def elsewhere():
            if shop.PLACE == "thread":
                thread = threading.Thread(target=lambda: shop.quietly(send))
                thread.start()
                thread.join()
            elif shop.PLACE == "queue":
                shop.jobs.put(send)
                shop.jobs.join()
            elif shop.PLACE == "here":
                send()
        monkeypatch.setattr(shop, "elsewhere", elsewhere)
        tape_run.call()
        assert tape_run.report.identical, str(tape_run.report)


    def test_nothing_arrived_and_the_connection_still_works():
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(100)
        send()
        server.setblocking(True)
        assert server.recv(100) == b"money"
    """
)


@pytest.mark.parametrize("place", ["here", "thread", "queue"] if FULL else ["queue"])
def test_a_connection_that_was_open_before_is_not_used(shop: Shop, place: str) -> None:
    (shop.folder / "test_shop.py").write_text(CONNECTED)
    done = shop.pytest(PLACE=place)

    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "the network was used" in done.stdout


def test_the_command_has_no_network_interfaces(shop: Shop) -> None:
    source = (shop.folder / "shop.py").read_text()
    look = "import socket as s; print('INTERFACES', [n for _, n in s.if_nameindex()])"
    (shop.folder / "shop.py").write_text(source + f"\n{look}\n")
    done = shop._python(["-m", "tracereel", "replay", "run.tape.ndjson", "--run"])

    if "no network namespace" in done.stderr:
        pytest.skip("this system has no network namespaces")
    assert "INTERFACES ['lo']" in done.stdout
