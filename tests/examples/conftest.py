"""Each example test starts unconfigured, with its own spool, like the SDK tests."""

from tests.sdk.conftest import _clean_sdk  # noqa: F401 - a fixture
