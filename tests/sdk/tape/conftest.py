"""Fixtures of the tape tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.replay_trial import recording
from tracereel.tape import Tape
from tracereel.tape import format as tape_format


@pytest.fixture
def taped() -> Callable[..., tuple[Any, Tape]]:
    """Run a function while recording; return its result (or exception) and the tape."""

    def run(function: Callable[[], Any], **settings: Any) -> tuple[Any, Tape]:
        with recording(**settings) as events:
            try:
                result = function()
            except Exception as error:
                result = error
        return result, tape_format.parse(events)

    return run


@pytest.fixture
def recorded_parts() -> Iterator[list[dict[str, Any]]]:
    with recording() as events:
        yield events
