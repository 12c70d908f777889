"""`tracereel replay` as a process, against a server with a recorded run."""

import json
import os
import pty
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from tests.sdk.cli.answering_server import AnsweringServer
from tests.sdk.cli.conftest import RECORDED_REPLAY

TRACE = "trc_main_abc123"


def test_shows_a_header_and_the_timeline_without_colour_in_a_pipe(run_cli, collector):
    """A pipe gets plain text: header first, one line per event."""
    shown = run_cli("replay", TRACE, "--endpoint", collector.url)

    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"trace     {TRACE}" == shown.stdout.splitlines()[0]
    assert "✖ temporal_agent" in shown.stdout
    assert "\x1b" not in shown.stdout


def test_the_endpoint_and_key_come_from_the_environment(run_cli, collector):
    """TRACEREEL_ENDPOINT and TRACEREEL_API_KEY replace the options."""
    shown = run_cli(
        "replay", TRACE, TRACEREEL_ENDPOINT=collector.url, TRACEREEL_API_KEY="from-environment"
    )

    assert shown.returncode == 0
    assert collector.asked[0].headers["x-api-key"] == "from-environment"


def test_json_is_the_collectors_answer_untouched(cli_env, collector):
    """The response bytes are printed unchanged."""
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", "replay", TRACE, "--endpoint", collector.url, "--json"],
        env=cli_env,
        capture_output=True,
        check=True,
    )

    assert RECORDED_REPLAY.read_bytes() == done.stdout


def test_an_unknown_trace_is_one_line_and_status_1(run_cli, collector):
    """The line names the trace and the endpoint."""
    done = run_cli("replay", "trc_unknown", "--endpoint", collector.url)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert f"no events of trace 'trc_unknown' at {collector.url}" in done.stderr


def test_unreachable_collector_is_one_line_with_the_start_command(run_cli):
    """Status 2, and the next step."""
    with AnsweringServer() as gone:
        url = gone.url

    done = run_cli("replay", TRACE, "--endpoint", url)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    port = urlsplit(url).port
    assert done.stderr.endswith(f"start one with: tracereel serve --port {port}\n")


@pytest.mark.parametrize("words", [["replay", TRACE, "--run"], ["test-from", TRACE, "--tape", "x"]])
def test_without_a_collector_there_is_no_tape_and_the_way_to_one_is_named(run_cli, words):
    with AnsweringServer() as gone:
        url = gone.url

    done = run_cli(*words, "--endpoint", url)

    assert (done.returncode, done.stdout) == (2, "")
    port = urlsplit(url).port
    assert done.stderr.endswith(f"start one with: tracereel serve --port {port}\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["no spaces"], "expected 1 to 128 letters, digits and _ . : -"),
        (["x", "--endpoint", "nowhere"], "expected a URL such as http://127.0.0.1:4318"),
    ],
)
def test_invalid_replay_arguments_are_one_line_and_status_2(run_cli, words, expected):
    """The line names the given and the accepted values."""
    done = run_cli("replay", *words)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr


def test_an_error_text_of_the_server_cannot_control_the_terminal(run_cli, collector):
    """Server text is sanitised like recorded text."""
    error = {"error": {"message": "\x1b[2Jowned\r\nsecond line"}}
    collector.answer(f"/v1/replay/{TRACE}", error, status=400)

    done = run_cli("replay", TRACE, "--endpoint", collector.url)

    assert done.returncode == 2
    assert "owned second line" in done.stderr
    assert "\x1b" not in done.stderr


def test_an_ascii_terminal_gets_ascii(run_cli, collector):
    """A locale without Unicode causes no crash."""
    shown = run_cli("replay", TRACE, "--endpoint", collector.url, PYTHONIOENCODING="ascii")

    assert shown.returncode == 0
    assert shown.stdout.isascii()


def test_closed_pipe_causes_no_traceback(cli_env, collector, recorded_document):
    """`tracereel replay … | head -1` ends quietly however long the run is."""
    recorded_document["timeline"] *= 3000
    collector.answer(f"/v1/replay/{TRACE}", json.dumps(recorded_document).encode())
    command = [sys.executable, "-m", "tracereel", "replay", TRACE, "--endpoint", collector.url]
    with subprocess.Popen(
        command, env=cli_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()
        process.wait(timeout=30)

    assert complaint == b""


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colour_unless_no_color_is_set(cli_env, collector, no_color, coloured):
    """Only a terminal gets colour, and NO_COLOR is respected."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tracereel", "replay", TRACE, "--endpoint", collector.url]
    with subprocess.Popen(command, env={**cli_env, "NO_COLOR": no_color}, stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        # A pseudo-terminal reports its end as an I/O error.
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:
            pass
        process.wait(timeout=30)
    os.close(ours)

    assert TRACE.encode() in shown
    assert coloured == (b"\x1b[" in shown)
