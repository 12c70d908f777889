"""What is left of the quota, read from headers as the wire has them."""

import httpx
from hypothesis import given
from hypothesis import strategies as st

from tracereel.metrics import tokens_remaining, tokens_remaining_raw

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
def test_both_readers_say_the_same(headers):
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]

    assert tokens_remaining_raw(httpx.Headers(raw)._list) == tokens_remaining(raw)
