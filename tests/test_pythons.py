"""Quick checks for other Python versions; `make test-pythons` runs the SDK's tests on them."""

import os
import subprocess
import sys

import pytest

from tests.pythons import ROOT, VERSIONS, others, version_of

FOUND = others()


def test_this_python_is_one_of_those_the_package_is_made_for():
    assert version_of(sys.executable) in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_every_module_of_the_sdk_compiles_without_a_warning(version, tmp_path):
    python = sys.executable if version == version_of(sys.executable) else FOUND.get(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")

    done = subprocess.run(
        [python, "-W", "error", "-m", "compileall", "-q", "-f", ROOT / "sdk"],
        env={**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert list(tmp_path.rglob("recorder.*.pyc"))
