"""Generated requests, valid and invalid: no operation responds with a server error."""

import contextlib

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error

from tests.support.collector import CollectorProcess
from tests.support.keys import make_key

HELD = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    """Return a separate collector, because generated requests may create keys."""
    folder = tmp_path_factory.mktemp("openapi")
    running = CollectorProcess(folder).start()
    running.key = make_key(folder, scope="write,read,admin")["key"]
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("mode", "least"),
    [(GenerationMode.POSITIVE, 9), (GenerationMode.NEGATIVE, 3)],
    ids=["as described", "otherwise"],
)
def test_no_operation_answers_with_a_server_error(fuzzed, mode, least):
    schema = schemathesis.openapi.from_url(f"{fuzzed.url}/openapi.json")
    seen: dict[str, int] = {}
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.definition.raw.get("x-tracereel-stream"):
            continue  # an endless stream, tested in test_tail.py

        @HELD
        @given(case=operation.as_strategy(generation_mode=mode))
        def try_it(case):
            answer = case.call(headers={"x-api-key": fuzzed.key})
            case.validate_response(answer, checks=[not_a_server_error])
            seen[case.operation.label] = seen.get(case.operation.label, 0) + 1

        with contextlib.suppress(Unsatisfiable):  # nothing in it can be invalid
            try_it()

    assert len(seen) >= least
    assert sum(seen.values()) >= 4 * least
    assert fuzzed.process.poll() is None
