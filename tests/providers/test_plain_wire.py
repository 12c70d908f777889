"""Plain answers read by their types say what the readers of whole answers say, or nothing."""

from random import Random

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.providers.test_plain import ANTHROPIC, CHAT, GOOGLE, RESPONSES, changed, names, values
from tracereel.integrations import _dialects
from tracereel.providers import BatchResultNormalizer, plain_wire

KINDS = {"anthropic": ANTHROPIC, "chat": CHAT, "responses": RESPONSES, "google": GOOGLE}
DIALECTS = {
    each.plain: each
    for each in (_dialects.ANTHROPIC, _dialects.CHAT, _dialects.RESPONSES, _dialects.GOOGLE)
}
usage_names = st.sampled_from(
    [
        *("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens"),
        *("cache_read_input_tokens", "cache_creation_input_tokens", "cost", "promptTokenCount"),
        *("prompt_tokens_details", "completion_tokens_details", "output_tokens_details"),
        *("cached_tokens", "reasoning_tokens", "cache_write_tokens", "thoughtsTokenCount"),
        *("cachedContentTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount"),
        *("usage_metadata", "usageMetadata", "usage", "response_metadata", "token_usage"),
    ]
)
counts = st.integers(-1, 2**63) | st.floats(0, 9) | st.none()


def compare(kind, data, body):
    """Whether the short way was taken; then it has said what the long way says."""
    short = plain_wire.read(kind, body)
    if short is None:
        return False
    dialect = DIALECTS[kind]
    whole = BatchResultNormalizer(provider=dialect.provider, model="asked", keep_raw=False)._tell(
        data, is_data=True
    )
    (event,) = whole.events
    assert event.type == "assistant_message"
    assert whole.problems == ()
    assert (short.content, short.message_id) == (event.content, event.message_id)
    assert (short.model or "asked", short.usage) == (whole.model, whole.usage)
    assert (short.stop_reason, short.stop_reason_raw) == (whole.stop_reason, whole.stop_reason_raw)
    assert short.event_id == event.event_id
    assert msgspec.json.decode(short.said) == dialect.said(data)
    assert short.message_id == (data.get("id") or data.get("responseId") or None)
    assert b"\n" not in short.said
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_plain_answers_of_every_provider_are_read(kind):
    assert compare(kind, KINDS[kind], msgspec.json.encode(KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_on_many_lines_is_said_on_one(kind):
    body = msgspec.json.format(msgspec.json.encode(KINDS[kind]), indent=2)

    assert compare(kind, KINDS[kind], body)


@given(
    kind=st.sampled_from(sorted(KINDS)),
    changes=st.lists(
        st.tuples(names, values) | st.tuples(usage_names, counts | values), max_size=3
    ),
    seed=st.integers(0, 2**32),
)
@example(kind="google", changes=[("promptTokenCount", None)], seed=0)
def test_what_is_read_is_what_the_whole_answer_says(kind, changes, seed):
    data = changed(KINDS[kind], changes, Random(seed))
    body = msgspec.json.encode(data)

    compare(kind, msgspec.json.decode(body), body)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"nonsense", b"\xff", b"null", "{}"])
@pytest.mark.parametrize("kind", [*KINDS, "other"])
def test_what_is_no_such_answer_is_left_to_others(kind, body):
    assert plain_wire.read(kind, body) is None
