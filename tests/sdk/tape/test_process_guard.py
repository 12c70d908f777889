"""Commands that replay runs call no tool with side effects, wherever in the process it is."""

import textwrap
from typing import Any

import pytest

from tests.support.ledger_shop import DECORATOR, FULL, LIVE, MODES, PLACES, Shop, modes, places

QUIET = ("exit", "connection")
"""Places that no report shows: after it, and a connection that is refused when the program is imported."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = Shop(tmp_path_factory.mktemp("shop"))
    yield made
    made.listener.close()


@pytest.fixture(autouse=True)
def _clean(shop: Shop) -> Any:
    shop.write()
    yield
    shop.ledger.unlink(missing_ok=True)


def test_without_a_replay_every_place_calls_its_tool(shop: Shop) -> None:
    done = shop.python(["-c", "import shop; shop.clerk('a-17')"], PLACE=",".join(PLACES))

    called = shop.called()
    assert done.returncode == 0, done.stderr
    # The framework's tool and the place with a cleared environment call twice, the run's own tool
    # once; the connection has no line.
    assert called.count("\n") == len(PLACES) + 2, called
    assert called.endswith("moneymoney")


def test_an_unchanged_run_is_the_same(shop: Shop) -> None:
    status, report = shop.replay()

    assert (status, report["verdict"]) == (0, "same"), report
    assert shop.called() == ""


@places(PLACES)
def test_strict_replay_calls_no_tool_elsewhere(shop: Shop, place: str) -> None:
    status, report = shop.replay(PLACE=place)

    assert shop.called() == ""
    if place not in QUIET:
        assert status == 1, report
        # A call in a thread that knows the run is one that is not on the tape.
        assert report["verdict"] in ("inconclusive", "changed")
        assert {each["why"] for each in report["reasons"]} <= {"refused", "extra", "network"}


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
        or "the network was used" in done.stdout
    )


@places([*LIVE, *PLACES, "none"])
def test_an_update_calls_no_tool(shop: Shop, place: str) -> None:
    done = shop.update(PLACE=place)

    assert shop.called() == ""
    assert done.returncode == 1, done.stdout


@places(PLACES)
@pytest.mark.parametrize("threads", ["", "1"], ids=["fresh process", "fork"])
def test_a_fleet_replay_calls_no_tool_elsewhere(shop: Shop, place: str, threads: str) -> None:
    report = shop.fleet(PLACE=place, NO_THREADS=threads)

    assert shop.called() == ""
    if place not in QUIET:
        (group,) = report["groups"]
        assert group["verdict"] in ("inconclusive", "changed")
    assert bool(report["fresh_processes"]) == (not threads)


@places(LIVE)
def test_a_fleet_replay_calls_no_tool_inside_of_others(shop: Shop, place: str) -> None:
    shop.fleet(PLACE=place, CHANGED="1")

    assert shop.called() == ""


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
    assert "has no decorator any more" in shop.update().stdout
    (group,) = shop.fleet()["groups"]
    assert "has no decorator any more" in group["example"]["report"]
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


OLDER = textwrap.dedent(
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import pytest
    import shop

    context = multiprocessing.get_context("fork")
    workers = ProcessPoolExecutor(1, mp_context=context)
    workers.submit(shop.in_child)
    pool = context.Pool(1)
    jobs, done = context.Queue(), context.Queue()


    def serve():
        while jobs.get():
            shop.in_child()
            done.put(None)


    context.Process(target=serve, daemon=True).start()
    WAYS = {
        "executor": lambda: workers.submit(shop.in_child).result(),
        "pool": lambda: pool.apply(shop.in_child),
        "queue": lambda: (jobs.put(1), done.get()),
    }


    def test_the_processes_call_the_tool_without_a_replay():
        for way in WAYS.values():
            way()


    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.tracereel_tape("run.tape.ndjson")
    def test_run(tape_run, monkeypatch, way):
        monkeypatch.setattr(shop, "elsewhere", WAYS[way])
        tape_run.call()


    def test_the_processes_still_work():
        assert pool.apply(abs, (-1,)) == 1
    """
)


def test_a_process_that_was_started_before_gets_no_work(shop: Shop) -> None:
    (shop.folder / "test_shop.py").write_text(OLDER)
    done = shop.pytest()

    assert "3 failed, 2 passed" in done.stdout, done.stdout
    assert done.stdout.count("that was started before the replay") >= 3
    # The first job and those of the test without a replay; not those of the replay.
    assert shop.called() == "none 4\n" * 4


WITHIN = textwrap.dedent(
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import pytest
    import shop

    workers = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))


    @pytest.mark.parametrize("turn", [1, 2])
    @pytest.mark.tracereel_tape("run.tape.ndjson")
    def test_run(tape_run, monkeypatch, turn):
        monkeypatch.setattr(shop, "elsewhere", lambda: workers.submit(abs, -1).result())
        tape_run.call()
        assert tape_run.report.identical, str(tape_run.report)
    """
)


def test_a_process_of_an_earlier_replay_gets_work(shop: Shop) -> None:
    (shop.folder / "test_shop.py").write_text(WITHIN)
    done = shop.pytest()

    assert "2 passed" in done.stdout, done.stdout


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
    done = shop.python(["-m", "tracereel", "replay", "run.tape.ndjson", "--run"])

    if "no network namespace" in done.stderr:
        pytest.skip("this system has no network namespaces")
    assert "INTERFACES ['lo']" in done.stdout
