"""Retry delay requested by a destination."""

import pytest

from tracereel._export.backoff import MAX_RETRY_AFTER, retry_after_seconds

NOW = 1_769_162_400.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("3", 3.0),
        ("99999", MAX_RETRY_AFTER),
        ("Fri, 23 Jan 2026 10:00:07 GMT", 7.0),
        ("Fri, 23 Jan 2026 09:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("-5", 0.0),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(text, now=NOW) == seconds
