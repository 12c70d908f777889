"""Fixtures of the command-line tests: the real command in a process, and a server."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.cli.answering_server import AnsweringServer

REPOSITORY = Path(__file__).parents[3]
RECORDED_REPLAY = Path(__file__).with_name("recorded_replay.json")

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cli_env(tmp_path: Path) -> dict[str, str]:
    """Return an environment without user settings, with its home in the test's directory."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRACEREEL_", "OTEL_", "XDG_"))
        and name not in ("NO_COLOR", "COLUMNS")
    }
    paths = [str(REPOSITORY / "sdk"), str(REPOSITORY / "collector"), env.get("PYTHONPATH", "")]
    return {
        **env,
        "HOME": str(tmp_path),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TRACEREEL_SPOOL_DIR": str(tmp_path / "spool"),
    }


@pytest.fixture
def run_cli(cli_env: dict[str, str]) -> RunCli:
    """Run `python -m tracereel ARGS` to its end."""

    def run(*args: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "tracereel", *args],
            env={**cli_env, **env},
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def collector() -> Iterator[AnsweringServer]:
    """Return a healthy server with the recorded replay."""
    with AnsweringServer() as server:
        server.answer("/v1/replay/trc_main_abc123", RECORDED_REPLAY.read_bytes())
        server.answer("/healthz", {"status": "ok", "version": "0.1.0"})
        server.answer("/readyz", {"status": "ready", "store": {"answers": True}})
        server.answer("/readyz/query", {"status": "ready"})
        yield server


@pytest.fixture
def recorded_document() -> dict[str, Any]:
    """Return the recorded replay as the collector sends it."""
    document: dict[str, Any] = json.loads(RECORDED_REPLAY.read_bytes())
    return document
