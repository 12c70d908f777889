"""Stack shared by all dashboard tests."""

import pytest

from tests.support.stack import running_stack


def pytest_collection_modifyitems(items):
    for item in items:
        if "stack" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="package")
def stack(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture(scope="package")
def prometheus(stack):
    if stack.prometheus is None:
        pytest.skip("no `prometheus` here: on Debian, apt-get install prometheus")
    return stack.prometheus
