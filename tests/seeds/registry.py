"""Checks by name: a check takes a row and the evidence, and asserts what the row says."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.seeds.rows import Row

if TYPE_CHECKING:
    from tests.seeds.evidence import Evidence

Check = Callable[[Row, "Evidence"], None]

CHECKS: dict[str, Check] = {}
WITH_COLLECTOR: set[str] = set()
"""Checks that need a running collector."""


def check(function: Check) -> Check:
    """Register a check under the name of its function."""
    if function.__name__ in CHECKS:
        raise ValueError(f"check {function.__name__} is defined twice")
    CHECKS[function.__name__] = function
    return function


def collector_check(function: Check) -> Check:
    """Register a check that needs a running collector."""
    WITH_COLLECTOR.add(function.__name__)
    return check(function)
