"""The evidence that all rows share, made once and only where a row asks for it."""

import os

import pytest

from tests.seeds.evidence import Evidence


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    """Return programs, recorders and a collector that the rows look at."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("TRACEREEL_", "OTEL_")):
                patch.delenv(name)
        folder = tmp_path_factory.mktemp("seeds")
        patch.setenv("TRACEREEL_SPOOL_DIR", str(folder / "spool"))
        patch.setenv("QUESTIONS_API_KEY", "a-key-of-the-seed-tests")  # of the SSE example
        made = Evidence(folder)
        yield made
        made.close()
