"""The modules of the page that need no browser, tested by Node (`tests/web/js`)."""

import shutil
import subprocess
from pathlib import Path

import pytest

NODE = shutil.which("node")
TESTS = sorted(Path(__file__).parent.joinpath("js").glob("*.test.mjs"))


@pytest.mark.skipif(NODE is None, reason="Node is not installed: the page's modules are not tested")
@pytest.mark.parametrize("file", TESTS, ids=[file.stem for file in TESTS])
def test_a_module_without_a_document_holds_its_own_tests(file):
    done = subprocess.run([NODE, "--test", file], capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
