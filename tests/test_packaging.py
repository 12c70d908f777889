"""Build and dependencies: two packages, a light base install, all data files."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires, version
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


def locked(name):
    """Return versions and hashes in a lock file of the image."""
    text = (ROOT / "collector" / name).read_text("utf-8").replace(" \\\n    ", " ")
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            pin, *hashes = line.split()
            package, version = pin.split("==")
            found[package] = version
            assert hashes, line
            assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), line
    return found


@pytest.mark.parametrize("name", ["requirements.lock", "build.lock"])
def test_the_lock_files_satisfy_pyproject_and_name_no_index(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needed = {
        "requirements.lock": [
            *project["project"]["dependencies"],
            *project["project"]["optional-dependencies"]["collector"],
        ],
        "build.lock": project["build-system"]["requires"],
    }[name]
    pins = locked(name)

    for line in needed:
        requirement = Requirement(line)
        assert requirement.specifier.contains(pins[canonical(requirement.name)]), line
    assert "://" not in (ROOT / "collector" / name).read_text("utf-8")


def test_the_lock_file_has_what_its_packages_need():
    """As far as this environment has the packages: the lock is for another Python."""
    pins, target = locked("requirements.lock"), {"python_version": "3.13", "extra": ""}
    for package in pins:
        try:
            needed = requires(package) or []
        except PackageNotFoundError:
            continue
        if version(package) != pins[package]:
            continue  # another version may need something else
        for requirement in map(Requirement, needed):
            if requirement.marker is None or requirement.marker.evaluate(target):
                assert canonical(requirement.name) in pins, f"{package} needs {requirement}"


def test_the_image_installs_from_the_lock_files_alone():
    text = (ROOT / "collector" / "Dockerfile").read_text("utf-8")
    installs = re.findall(r"pip (?:install|wheel) (.+?)(?: \\)?\n", text)

    assert len(installs) == 4
    for options in installs:
        assert "--require-hashes" in options or "--no-deps" in options, options


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def base_requirements():
    """Return the transitive dependencies of the base install."""
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
