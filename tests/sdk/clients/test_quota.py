"""Remaining tokens of a quota, read from rate-limit headers."""

import httpx
from hypothesis import given
from hypothesis import strategies as st

from tracereel.metrics import tokens_remaining

names = st.sampled_from(
    [
        "x-ratelimit-remaining-tokens",
        "X-RateLimit-Remaining-Tokens",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-output-tokens-remaining",
        "content-type",
    ]
)
values = st.integers(0, 99).map(str) | st.sampled_from(["", "-1", "1.5", "9" * 16, " 7", "\xb2"])


@given(st.lists(st.tuples(names, values), max_size=6))
def test_httpx_headers_read_like_raw_pairs(headers):
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]

    assert tokens_remaining(httpx.Headers(raw)) == tokens_remaining(raw)
