"""What is built and what it drags in: two packages, a light base, everything the collector reads."""

import re
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [*(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder), ROOT], check=True
    )
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        return archive.namelist()


def test_the_wheel_has_two_packages_and_nothing_else(wheel):
    top = {name.split("/")[0] for name in wheel}

    assert {name for name in top if not name.endswith(".dist-info")} == {
        "tracereel",
        "tracereel_collector",
    }


def test_the_wheel_has_every_file_that_is_read_at_run_time(wheel):
    packages = [ROOT / "sdk" / "tracereel", ROOT / "collector" / "tracereel_collector"]
    read = [
        str(file.relative_to(package.parent))
        for package in packages
        for file in package.rglob("*")
        if file.suffix in {".sql", ".html", ".js", ".css", ".typed"}
    ]

    assert len(read) > 5
    assert [name for name in read if name not in wheel] == []


def base_requirements():
    """Everything the base install brings, and what that brings in turn."""
    found, waiting = set(), ["tracereel"]
    while waiting:
        for line in requires(waiting.pop()) or []:
            requirement = Requirement(line)
            name = re.sub(r"[-_.]+", "-", requirement.name).lower()
            needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if needed and name not in found:
                found.add(name)
                try:
                    requires(name)
                except PackageNotFoundError:
                    continue
                waiting.append(name)
    return found


def test_the_base_install_is_the_sdk_alone():
    heavy = {"fastapi", "starlette", "uvicorn", "clickhouse-connect", "chdb", "pandas", "grpcio"}

    assert base_requirements() & heavy == set()
    assert {"pydantic", "structlog", "opentelemetry-sdk"} <= base_requirements()
