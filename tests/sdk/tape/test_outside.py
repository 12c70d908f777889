"""What a recorded run does outside of its recorded calls makes it partly replayable."""

import asyncio
import multiprocessing
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tests.support.replay_trial import recording
from tracereel import traced_agent, traced_llm, traced_tool
from tracereel._core import network_guard, replay_guard
from tracereel.tape import Tape, boundary
from tracereel.tape import format as tape_format


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@traced_tool("look", effect="read")
def look(text: str) -> str:
    return text


def _connect(port: int, _folder: Path) -> None:
    socket.create_connection(("127.0.0.1", port)).close()


def _write(_port: int, folder: Path) -> None:
    (folder / "notes.txt").write_text("done")


def _remove(_port: int, folder: Path) -> None:
    os.mkdir(folder / "made")


def _program(_port: int, _folder: Path) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def _process(_port: int, _folder: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=abs, args=(1,))
    process.start()
    process.join()


def _database(_port: int, folder: Path) -> None:
    sqlite3.connect(folder / "shop.db").close()


async def _connect_async(port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


def _loop(port: int, _folder: Path) -> None:
    asyncio.run(_connect_async(port))


def _in_thread(_port: int, folder: Path) -> None:
    thread = threading.Thread(target=_write, args=(0, folder))
    thread.start()
    thread.join()


EFFECTS = {
    _connect: "the network is used: 127.0.0.1",
    _loop: "the network is used: 127.0.0.1",
    _write: "a file is written:",
    _remove: "a file is changed:",
    _program: f"a program is started: {sys.executable}",
    _database: "a database is opened:",
    _process: "a process is started",
    _in_thread: "a file is written:",
}
Effect = Callable[[int, Path], None]


@traced_agent("careless")
def careless(effect: str, port: int, folder: str) -> str:
    _named(effect)(port, Path(folder))
    return look("x")


@traced_tool("does")
def does(effect: str, port: int, folder: str) -> None:
    _named(effect)(port, Path(folder))


@traced_agent("careful")
def careful(effect: str, port: int, folder: str) -> str:
    does(effect, port, folder)
    return look("x")


@traced_agent("client")
def client(effect: str, port: int, folder: str) -> None:
    boundary("client.call", "tool", {}, lambda: _named(effect)(port, Path(folder)))


def _named(name: str) -> Effect:
    return next(each for each in EFFECTS if each.__name__ == name)


def taped(run: Callable[[], Any], **settings: Any) -> Tape:
    with recording(**settings) as events:
        run()
    return tape_format.parse(events)


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda each: each.__name__)
def test_an_effect_outside_of_recorded_calls_is_listed_with_its_line(
    effect: Effect, port: int, tmp_path: Path
) -> None:
    tape = taped(lambda: careless(effect.__name__, port, str(tmp_path)))

    assert tape.state == "partly"
    assert tape.outside == tape.reasons
    first = tape.outside[0]
    assert first.startswith(f"outside of recorded calls: {EFFECTS[effect]}")
    assert f"({__name__}:" in first


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("program", [careful, client])
def test_an_effect_inside_of_a_recorded_call_is_none(
    program: Any, effect: Effect, port: int, tmp_path: Path
) -> None:
    tape = taped(lambda: program(effect.__name__, port, str(tmp_path)))

    assert (tape.state, tape.reasons, tape.outside) == ("yes", (), ())


def test_a_program_that_is_started_is_listed_in_a_process_that_was_guarded_too(
    tmp_path: Path,
) -> None:
    with replay_guard.installed():
        pass

    assert taped(lambda: careless("_program", 0, str(tmp_path))).outside


@traced_tool("sends", effect="write")
def sends(connection: socket.socket) -> None:
    connection.sendall(b"x")


async def _sends_async(connection: socket.socket) -> None:
    _, writer = await asyncio.open_connection(sock=connection)
    writer.write(b"x")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("form", ["plain", "message", "asyncio"])
def test_data_on_a_connection_that_was_open_before_is_listed_once(port: int, form: str) -> None:
    @traced_agent("sender")
    def sender() -> None:
        if form == "asyncio":
            asyncio.run(_sends_async(connection))
        for _ in range(2):
            if form == "plain":
                connection.sendall(b"x")
            elif form == "message":
                connection.sendmsg([b"x"])

    with socket.create_connection(("127.0.0.1", port)) as connection:
        tape = taped(sender)

    assert tape.state == "partly"
    (found,) = tape.outside
    assert found.startswith(
        f"outside of recorded calls: the network is used: 127.0.0.1 ({__name__}"
    )


def test_data_of_recorded_calls_and_between_threads_is_not_listed(port: int) -> None:
    @traced_agent("sender")
    def sender() -> None:
        sends(connection)
        left.sendall(b"x")
        asyncio.run(asyncio.to_thread(look, "x"))

    left, right = socket.socketpair()
    with left, right, socket.create_connection(("127.0.0.1", port)) as connection:
        tape = taped(sender)

    assert tape.outside == ()


def test_effects_before_and_after_the_run_and_reading_files_do_not_count(tmp_path: Path) -> None:
    _write(0, tmp_path)

    @traced_agent("reader")
    def reader() -> str:
        return (tmp_path / "notes.txt").read_text()

    def run() -> None:
        _write(0, tmp_path)
        reader()
        _write(0, tmp_path)

    assert taped(run).outside == ()


def test_effects_of_another_task_do_not_count(tmp_path: Path) -> None:
    async def main() -> None:
        begun, written = asyncio.Event(), asyncio.Event()

        @traced_agent("waits")
        async def waits() -> None:
            begun.set()
            await written.wait()

        async def other() -> None:
            await begun.wait()
            _write(0, tmp_path)
            written.set()

        await asyncio.gather(other(), waits())

    assert taped(lambda: asyncio.run(main())).outside == ()


def test_a_call_in_a_thread_without_the_context_is_listed() -> None:
    @traced_agent("spreads")
    def spreads() -> list[str]:
        with ThreadPoolExecutor(1, thread_name_prefix="lost") as pool:
            return list(pool.map(look, ["a"]))

    tape = taped(spreads)
    assert tape.header["name"] == "spreads"
    assert tape.outside == (
        "outside of recorded calls: tool look, in thread lost_0, which has no context of the run",
    )


def test_a_call_in_a_pool_that_was_there_before_is_listed() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="early") as pool:
        pool.submit(int).result()

        @traced_agent("spreads")
        def spreads() -> list[str]:
            return [pool.submit(look, "a").result()]

        tape = taped(spreads)
        (found,) = tape.outside
        assert "tool look, in thread early_0, which has no context of the run" in found
        assert pool.submit(look, "b").result() == "b"


def test_work_for_other_processes_is_listed() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as workers:
        workers.submit(abs, 1).result()

        @traced_agent("spreads")
        def spreads() -> int:
            return workers.submit(abs, -1).result()

        (found,) = taped(spreads).outside
    assert "work is handed to a process: ProcessPoolExecutor" in found


def test_threads_with_the_context_are_part_of_the_run() -> None:
    @traced_agent("spreads")
    async def spreads() -> list[str]:
        with ThreadPoolExecutor(1) as pool:
            carried = pool.submit(tracereel.carry(look), "a")
        return [carried.result(), await asyncio.to_thread(look, "b")]

    tape = taped(lambda: asyncio.run(spreads()))
    assert tape.state == "yes", tape.reasons
    assert [call.name for call in tape.boundaries()] == ["look", "look"]


def test_the_list_is_bounded_and_says_so(tmp_path: Path) -> None:
    @traced_agent("writes")
    def writes() -> None:
        for number in range(100):
            (tmp_path / f"{number}.txt").write_text("")

    tape = taped(writes)
    assert len(tape.reasons) == 21
    assert tape.reasons[-1] == "there are more reasons; the first 20 are listed"


def test_what_is_listed_is_redacted_and_short(tmp_path: Path) -> None:
    @traced_agent("writes")
    def writes() -> None:
        (tmp_path / "jane.doe@example.com.txt").write_text("")

    assert "jane.doe" not in str(taped(writes).outside)


@traced_agent("takes")
def takes(thing: Any) -> str:
    return look("x")


def test_an_unknown_argument_of_the_run_makes_it_partly_replayable() -> None:
    tape = taped(lambda: takes(threading.Lock()))

    assert tape.state == "partly"
    assert tape.reasons == (
        "an argument of the run could not be kept: _thread:lock is of a type that is not known",
    )


def test_a_run_that_begins_with_a_block_is_partly_replayable() -> None:
    def run() -> None:
        with traced_agent("block"):
            look("x")

    tape = taped(run)
    assert tape.reasons == ("the run began with a block of agent, which cannot be called again",)


def test_the_spool_of_the_sdk_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tracereel.configure(
            record="all", endpoint="http://127.0.0.1:9", spool_dir=folder, exit_timeout=0.0
        )
        try:
            takes("x")
            spools = [
                line
                for file in Path(folder).rglob("*")
                if file.is_file()
                for line in file.read_bytes().splitlines()
            ]
        finally:
            tracereel.shutdown(timeout=0)
    assert spools
    assert not [line for line in spools if b"outside of recorded calls" in line]


@traced_llm("model", provider="test")
def model(prompt: str) -> str:
    return prompt


def test_a_file_that_is_written_within_a_model_call_in_a_step_does_not_count(
    tmp_path: Path,
) -> None:
    @traced_llm("writing", provider="test")
    def writing(prompt: str) -> str:
        _write(0, tmp_path)
        return model(prompt)

    @traced_agent("nested")
    def nested() -> str:
        with tracereel.traced_step("inside"):
            return writing("x")

    assert taped(nested).outside == ()


def test_a_wrapper_that_came_while_the_network_was_watched_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the first run that is recorded during a replay would be the last one that is watched."""

    def check(_host: str) -> None:
        pass

    sent = []
    network_guard.watch(check)
    real = socket.socket.sendall

    def later(self: socket.socket, data: bytes) -> None:
        sent.append(data)
        real(self, data)

    monkeypatch.setattr(socket.socket, "sendall", later)
    network_guard.unwatch(check)

    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x")
        assert (sent, other.recv(1)) == ([b"x"], b"x")
