"""What `make run` would do, with a Makefile of its own directory."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OLD_PYTHON = """#!/bin/sh
case "$1" in
  --version) echo "Python 3.9.2" ;;
  -c) exit 1 ;;
  -m) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""
"""Interpreter of a version that is not supported; its `-m venv` succeeds."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    old = tmp_path / "python3.9"
    old.write_text(OLD_PYTHON)
    old.chmod(0o755)
    return tmp_path


def make(folder: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    names = ("PORT", "DATA", "PYTHON", "GRPC_PORT", "TRACEREEL_GRPC_PORT", "MAKEFLAGS", "MAKELEVEL")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        ["make", *words],
        cwd=folder,
        env={**kept, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_an_unsupported_python_leaves_no_environment(folder: Path) -> None:
    done = make(folder, "run", f"PYTHON={folder / 'python3.9'}")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stdout
    assert "Python 3.9.2" in done.stdout
    assert not (folder / ".venv").exists()


def test_an_environment_of_an_unsupported_python_is_removed(folder: Path) -> None:
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(folder / "python3.9", folder / ".venv" / "bin" / "python")
    done = make(folder, "run")
    assert done.returncode != 0
    assert "Removing .venv" in done.stdout
    assert not (folder / ".venv").exists()


@pytest.mark.parametrize(
    ("words", "env", "grpc"),
    [
        ((), {}, "4317"),
        (("PORT=5318",), {}, "5317"),
        (("PORT=5318", "GRPC_PORT=off"), {}, "off"),
        (("PORT=0",), {}, "off"),
        ((), {"PORT": "6000"}, "5999"),
        ((), {"TRACEREEL_GRPC_PORT": "off"}, "off"),
    ],
)
def test_another_port_has_another_grpc_port(
    folder: Path, words: tuple[str, ...], env: dict[str, str], grpc: str
) -> None:
    done = make(folder, "--dry-run", "run", *words, **env)
    (command,) = [line for line in done.stdout.splitlines() if "tracereel serve" in line]
    assert f"--grpc-port {grpc} " in command
