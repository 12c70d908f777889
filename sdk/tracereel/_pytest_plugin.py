"""The pytest plugin: the fixture `recorded_events`. Loaded by pytest through its entry point.

It imports nothing of the SDK until the fixture is used: it is loaded in every run of pytest.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tracereel.testing import EventRecorder


@pytest.fixture
def recorded_events() -> "Iterator[EventRecorder]":
    """Every event recorded during the test: in memory, nothing written, nothing sent."""
    from tracereel.testing import EventRecorder

    with EventRecorder() as recorder:
        yield recorder
