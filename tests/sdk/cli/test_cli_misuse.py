"""Usage errors are one line with the given and the accepted values."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.replay_trial import recording
from tracereel import traced_agent
from tracereel.cli.replay import about_tape
from tracereel.cli.terminal import Terminal
from tracereel.client import Replayable
from tracereel.tape import format as tape_format

TRACE = "trc_main_abc123"


@traced_agent("greeter")
def greet() -> str:
    return "hello"


@pytest.fixture
def tape_file(tmp_path):
    """Return the path of a run's tape."""
    with recording() as events:
        greet()
    path = tmp_path / "run.tape.ndjson"
    tape_format.parse(events).save(path)
    return path


@pytest.fixture
def other_program() -> Iterator[str]:
    """Return the address of a server that does not speak HTTP, like gRPC's port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    client.recv(65536)
                    client.sendall(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("option", ["--directory", "--tape"])
def test_an_export_that_cannot_be_written_names_the_place_and_why(
    run_cli, tmp_path, tape_file, option
):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")

    done = run_cli("test-from", str(tape_file), option, str(in_the_way / "below"))

    assert done.returncode == 2
    assert done.stderr.startswith(f"tracereel test-from: cannot write {in_the_way}")
    assert done.stderr.endswith(": Not a directory\n")


@pytest.mark.parametrize("options", [["--at", "50"], ["--play"]])
@pytest.mark.parametrize("again", [["--run"], ["--fork"], ["--choose", "rule=1"]])
def test_a_re_execution_refuses_options_that_it_would_not_read(run_cli, options, again):
    done = run_cli("replay", TRACE, *options, *again)

    assert done.returncode == 2
    assert f"{options[0]} shows what was recorded" in done.stderr


def test_a_speed_without_playing_is_refused(run_cli):
    done = run_cli("replay", TRACE, "--speed", "2")

    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "tracereel replay: error: --speed goes with --play",
    )


def test_an_answer_that_is_no_http_is_called_so(run_cli, other_program):
    done = run_cli("traces", "--endpoint", other_program)

    assert done.returncode == 2
    assert done.stderr == (
        f"tracereel traces: what answers at {other_program} does not speak HTTP; expected the"
        " collector's HTTP port, 4318 by default (4317 is gRPC)\n"
    )


def test_advice_for_a_missing_collector_uses_the_requested_port(run_cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    done = run_cli("traces", "--endpoint", f"http://127.0.0.1:{port}")

    assert done.stderr.endswith(f"start one with: tracereel serve --port {port}\n")


def test_a_spool_directory_that_is_not_there_has_nothing_delivered_from_it(run_cli, tmp_path):
    done = run_cli("ship", "--spool-dir", str(tmp_path / "misspelt"))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tracereel ship: there is no directory {tmp_path / 'misspelt'}\n"


def test_demo_with_a_taken_metrics_port_is_an_error(run_cli, collector):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_cli("demo", "--runs", "1", "--metrics", str(port), "--endpoint", collector.url)

    assert f"no metrics: 127.0.0.1:{port} cannot be listened on" in done.stderr


def test_replays_are_listed_despite_many_later_branches():
    replays = [{"time": "2026-01-23T10:00:00Z", "identical": True}]
    replays += [{"time": "2026-01-23T11:00:00Z", "branch": f"b{number}"} for number in range(9)]
    found = Replayable.model_validate(
        {
            "trace_id": TRACE,
            "replayable": "yes",
            "recorded": True,
            "calls": 1,
            "command": f"tracereel replay {TRACE} --run",
            "replays": replays,
        }
    )

    shown = list(about_tape(found, Terminal(width=100), " --endpoint http://box:1"))

    assert shown == [
        "",
        "tape      can be run again · 1 call",
        f"          tracereel replay {TRACE} --run --endpoint http://box:1",
        "replayed  2026-01-23T10:00:00 · as recorded",
    ]
