"""Examples are tried like the rest of the SDK: each test unconfigured at first, with a spool of its own."""

from tests.sdk.conftest import _clean_sdk  # noqa: F401 - a fixture
