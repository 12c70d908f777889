"""Shiftable clocks of a collector process."""

import os
from pathlib import Path


class ShiftedClock:
    """Clocks of every Python process started with its `environ`."""

    def __init__(self, file):
        self._file = file
        self.set()

    @property
    def environ(self):
        path = [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "TRACEREEL_TEST_CLOCK": str(self._file),
        }

    def set(self, *, wall=0, passed=0):
        """Shift the wall clock by `wall`, and both clocks by `passed` seconds."""
        part = self._file.with_suffix(".part")
        part.write_text(f"{wall} {passed}", encoding="ascii")
        part.replace(self._file)
