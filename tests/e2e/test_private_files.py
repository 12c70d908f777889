"""Files written by a collector and its commands are readable by their owner only."""

import os
import stat
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.support.collector import CollectorProcess
from tests.support.contract import EXAMPLES
from tests.support.waiting import wait_until


@contextmanager
def usual_umask():
    """Start processes with the usual umask."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def tracereel(*words):
    return subprocess.run(
        [sys.executable, "-m", "tracereel", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def open_to_others(directory):
    """Return paths below a directory that group or others may access, with their modes."""
    return {
        str(path.relative_to(directory)): oct(stat.S_IMODE(path.lstat().st_mode))
        for path in directory.rglob("*")
        if not path.is_symlink() and stat.S_IMODE(path.lstat().st_mode) & 0o077
    }


@pytest.fixture
def data_dir(tmp_path):
    """Return an existing data directory that is open to others."""
    directory = tmp_path / "data"
    directory.mkdir()
    directory.chmod(0o755)
    return directory


def test_files_in_an_existing_directory_are_private(data_dir, tmp_path):
    with usual_umask():
        collector = CollectorProcess(data_dir, fresh=True, arguments=("--workers", "2")).start()
        try:
            assert collector.post_events(EXAMPLES).status == 200
            open_while_served = open_to_others(data_dir)
        finally:
            collector.stop()
        for words in (
            ("keys", "create", "--data-dir", data_dir),
            ("backup", tmp_path / "saved", "--data-dir", data_dir),
            ("restore", tmp_path / "saved", "--data-dir", tmp_path / "restored"),
        ):
            done = tracereel(*words)
            assert done.returncode == 0, done.stderr

    assert open_while_served == {}
    assert open_to_others(data_dir) == {}
    assert open_to_others(tmp_path / "saved") == {}
    assert open_to_others(tmp_path / "restored") == {}
    assert stat.S_IMODE((tmp_path / "restored").stat().st_mode) == 0o700


def test_start_warns_of_a_directory_that_is_open_to_others(data_dir):
    def warnings(collector):
        return [line for line in collector.output if "data_dir_open" in line]

    collector = CollectorProcess(data_dir).start()
    try:
        wait_until(lambda: warnings(collector), message="no warning")
        (line,) = warnings(collector)
    finally:
        collector.stop()
    assert "0755" in line
    assert f"chmod 700 {data_dir}" in line

    data_dir.chmod(0o700)
    collector = CollectorProcess(data_dir).start()
    collector.stop()
    assert warnings(collector) == []


def test_doctor_warns_of_a_directory_that_is_open_to_others(data_dir):
    said = tracereel("doctor", "--data-dir", data_dir, "--endpoint", "http://127.0.0.1:1").stdout
    assert "other users may access it (mode 0755)" in said
    assert f"chmod 700 {data_dir}" in said

    data_dir.chmod(0o700)
    said = tracereel("doctor", "--data-dir", data_dir, "--endpoint", "http://127.0.0.1:1").stdout
    assert "other users" not in said
