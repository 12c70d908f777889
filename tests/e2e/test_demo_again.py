"""First steps of a new user in a shell: replay, fork, compare and export the demo's run."""

import os
import re
import subprocess
import sys

from tests.support.waiting import wait_until
from tracereel.client import Client, NotFoundError
from tracereel.demo import appointment

ID = re.compile(r"[0-9a-f]{32}")
IMPORTS = (
    "tracereel replay: importing tracereel.demo.appointment from"
    f" {appointment.__file__}, which the tape names\n"
)


def is_whole(collector, trace_id):
    """Return whether all parts of a run's tape are stored."""
    try:
        return Client(collector.url).replayable(trace_id).replayable == "yes"
    except NotFoundError:
        return False


def test_the_run_of_the_demo_is_run_again_forked_and_made_a_test(collector, tmp_path):
    def tracereel(*words):
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env={
                **os.environ,
                "TRACEREEL_ENDPOINT": collector.url,
                "TRACEREEL_SPOOL_DIR": str(tmp_path / "spool"),
                "PYTHONIOENCODING": "utf-8",
                "COLUMNS": "200",
            },
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    shown = tracereel("tracereel", "demo", "--runs", "1")
    run = ID.search(shown.stdout)[0]
    assert f"tracereel replay {run} --run" in shown.stdout

    def whole(trace_id):
        return is_whole(collector, trace_id)

    wait_until(lambda: whole(run), timeout=30, message="no whole tape")

    for named in ([], ["tracereel.demo.appointment:create_appointment"]):
        again = tracereel("tracereel", "replay", run, "--run", *named)
        # A module is printed before it is imported, unless the user has named it.
        said = IMPORTS if not named else ""
        assert (again.returncode, again.stderr) == (0, said)
        assert again.stdout.startswith("result: Booking(outcome='appointment_created'")
        assert f"The run of {run} went as recorded: 5 calls served, 0 made." in again.stdout

    forked = tracereel(
        "tracereel", "replay", run, "--run", "--fork", "--choose", "rule_check=refuse"
    )
    assert (forked.returncode, forked.stderr) == (0, IMPORTS)
    assert "result: Booking(outcome='outside_opening_hours'" in forked.stdout
    branch = re.search(r"recorded as (\w+)", forked.stdout)[1]
    assert f"diff {run} {branch}" in forked.stdout
    wait_until(lambda: whole(branch), timeout=30, message="no branch")
    compared = tracereel("tracereel", "diff", run, branch)
    assert f"{branch} is a branch of {run}" in compared.stdout
    assert 'rule_check: chosen is "refuse"' in compared.stdout
    assert "outside_opening_hours" in compared.stdout

    made = tracereel("tracereel", "test-from", run, "--directory", "replays")
    assert (made.returncode, made.stderr) == (0, "")
    tested = tracereel("pytest", "-q", "-p", "no:cacheprovider", "replays")
    assert tested.returncode == 0, tested.stdout


PROGRAM = """
import tracereel

tracereel.configure(record="all")


@tracereel.traced_tool("dice", effect="read")
def dice() -> int:
    return 4


@tracereel.traced_agent("player")
def play() -> int:
    print(tracereel.current_execution().trace_id)
    return dice()


if __name__ == "__main__":
    play()
"""


def test_branch_is_sent_to_the_given_endpoint_despite_configure(collector, tmp_path):
    (tmp_path / "game.py").write_text(PROGRAM)
    without = {name: value for name, value in os.environ.items() if "TRACEREEL" not in name}
    env = {**without, "TRACEREEL_SPOOL_DIR": str(tmp_path / "spool")}

    def python(*words, **more):
        return subprocess.run(
            [sys.executable, *words],
            env={**env, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout

    run = python("game.py", TRACEREEL_ENDPOINT=collector.url).strip()
    wait_until(lambda: is_whole(collector, run), timeout=30, message="no whole tape")

    words = ["replay", run, "--fork", "--result", "dice=6", "--endpoint", collector.url]
    forked = python("-m", "tracereel", *words)

    branch = re.search(r"recorded as (\w+)", forked)[1]
    wait_until(lambda: is_whole(collector, branch), timeout=30, message="the branch is elsewhere")
