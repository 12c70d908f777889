"""Fixtures of the fleet tests."""

from pathlib import Path

import pytest

from tests.support.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "program").write()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs.fleet"
