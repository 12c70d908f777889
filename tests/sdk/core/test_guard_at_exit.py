"""The guard of replays while the interpreter ends."""

import subprocess
import sys

PROGRAM = """
import os, sys
from tracereel._core import replay_guard

class Late:
    def __init__(self):
        self.system = os.system

    def __del__(self):
        self.system("echo called")

replay_guard._install_hooks()
sys.late = Late()  # goes after the globals of modules
"""


def test_a_program_that_is_started_after_globals_are_gone_is_no_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )

    assert (done.stdout, done.stderr) == ("called\n", "")
