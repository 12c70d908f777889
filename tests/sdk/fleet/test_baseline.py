"""`fleet run --baseline`: only runs that the baseline repeats say something of a change."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tracereel.fleet.source import RevisionError, worktree


def git(folder: Path, *words: str) -> str:
    environment = {
        **os.environ,
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "test"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "test@localhost"),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def repository(desk: Desk) -> Desk:
    """Program in a folder of a repository, below its top."""
    git(desk.folder.parent, "init", "-q", "-b", "main")
    git(desk.folder.parent, "add", "program")
    git(desk.folder.parent, "commit", "-q", "-m", "first")
    return desk


def test_runs_that_the_baseline_cannot_repeat_are_lost_coverage(
    repository: Desk, runs: Path
) -> None:
    ids = repository.record(runs, range(6))
    # Since the recording, main has come to another output for one run; the branch changes another.
    repository.change('"said": said}', '"said": "none" if number == 1 else said}')
    git(repository.folder, "commit", "-q", "-am", "second")
    repository.change('["number", "total"])', '["total"] if number == 3 else ["number", "total"])')

    one_sided = repository.replayed(runs)
    report = repository.replayed(runs, "--baseline", "HEAD", "--min-coverage", "0.8")

    assert one_sided["counts"]["changed"] == 2
    assert report["counts"]["changed"] == 1
    assert {
        (each["verdict"], each["cause"]["kind"]): each["runs"] for each in report["groups"]
    } == {
        ("changed", "changed"): [ids[3]],
        ("inconclusive", "baseline output"): [ids[1]],
    }
    assert report["coverage"] == round(5 / 6, 6)
    assert report["failures"] == ["1 run is changed"]
    assert git(repository.folder, "worktree", "list").count("\n") == 1


def test_a_baseline_runs_its_own_code_although_the_path_names_the_working_tree(
    repository: Desk, runs: Path
) -> None:
    repository.record(runs, [1, 2])
    repository.change('"said": said}', '"said": "none"}')

    done = repository.fleet("run", runs, "--baseline", "HEAD", PYTHONPATH=str(repository.folder))

    assert "2 runs: 2 changed; coverage 100.0%" in done.stdout, done.stdout + done.stderr


def test_a_flaky_baseline_sets_the_run_aside(repository: Desk, runs: Path, tmp_path: Path) -> None:
    ids = repository.record(runs, [1, 2])
    seen = tmp_path / "seen"
    repository.change(
        '"said": said}',
        f'"said": said if number != 2 or Path({str(seen)!r}).exists()'
        f" else Path({str(seen)!r}).touch()}}",
    )
    git(repository.folder, "commit", "-q", "-am", "second")

    report = repository.replayed(runs, "--baseline", "main", "--min-coverage", "0.5")

    assert [each["trace_id"] for each in report["flaky"]] == [ids[2]]
    assert (report["counts"]["same"], report["passed"]) == (1, True)


def test_an_unknown_revision_is_refused(repository: Desk, runs: Path) -> None:
    repository.record(runs, [1])

    done = repository.fleet("run", runs, "--baseline", "--output=x")
    assert done.returncode == 2
    done = repository.fleet("run", runs, "--baseline", "nowhere")
    assert done.returncode == 2
    assert "git rev-parse failed" in done.stderr
    with pytest.raises(RevisionError), worktree("--help", repository.folder):
        pass


def test_hooks_of_the_repository_do_not_run(repository: Desk, tmp_path: Path) -> None:
    hook = repository.folder.parent / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    hook.chmod(0o755)

    with worktree("HEAD", repository.folder) as folder:
        assert (folder / "desk.py").is_file()
    assert not folder.exists()
    assert not (tmp_path / "ran").exists()
