"""Public names, and their import cost."""

import json
import subprocess
import sys

import pytest

import tracereel
from tests.sdk.conftest import SDK


def test_all_is_sorted_and_every_name_loads() -> None:
    assert tracereel.__all__ == sorted(tracereel.__all__)
    assert all(hasattr(tracereel, name) for name in tracereel.__all__)
    assert set(tracereel._HOMES) == set(tracereel.__all__)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        tracereel.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import tracereel", ["msgspec", "opentelemetry", "prometheus_client", "structlog"]),
        ("from tracereel import traced_agent, configure", ["pydantic", "fastapi", "chdb"]),
    ],
)
def test_importing_pulls_in_no_more_than_it_needs(statement: str, absent: list[str]) -> None:
    code = f"{statement}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SDK)}, capture_output=True, check=True
    )
    loaded = set(json.loads(out.stdout))
    assert loaded.isdisjoint(absent)
