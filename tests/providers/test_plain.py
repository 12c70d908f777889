"""The short way of plain answers says what the long way says, whatever stands in the answer."""

import copy
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tracereel.providers import BatchResultNormalizer
from tracereel.providers.plain import plain_answer

TEXT = "It is sunny in Lima."
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-1",
    "content": [{"type": "text", "text": TEXT, "citations": None}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 21, "output_tokens": 14, "cache_read_input_tokens": 3},
}
CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-1",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": TEXT, "refusal": None, "annotations": []},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "usage": {"prompt_tokens": 21, "completion_tokens": 14, "total_tokens": 35},
}
RESPONSES = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-1",
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "output": [
        {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 21, "output_tokens": 14, "total_tokens": 35},
}
GOOGLE = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": TEXT}]},
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {"promptTokenCount": 21, "candidatesTokenCount": 14, "thoughtsTokenCount": 2},
    "modelVersion": "gemini-1",
    "responseId": "r1",
}
ANSWERS = [ANTHROPIC, CHAT, RESPONSES, GOOGLE]

names = st.sampled_from(
    [
        *("type", "text", "role", "id", "model", "content", "error", "status", "object", "output"),
        *("choices", "candidates", "message", "finish_reason", "stop_reason", "stop_details"),
        *("refusal", "tool_calls", "citations", "annotations", "reasoning", "thought", "usage"),
        *("promptFeedback", "groundingMetadata", "functionCall", "messages", "explanation"),
    ]
)
words = st.sampled_from(
    ["", "max_tokens", "length", "MAX_TOKENS", "refusal", "pause_turn", "content_filter", "SAFETY"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 9) | words | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


def changed(answer, changes, chance):
    """The answer with fields put somewhere in it, some in the place of others."""
    answer = copy.deepcopy(answer)
    for name, value in changes:
        places = [answer]
        for place in places:
            inner = place.values() if isinstance(place, dict) else place
            places += [each for each in inner if isinstance(each, (dict, list))]
        place = chance.choice(places)
        if isinstance(place, dict):
            place[chance.choice([name, *place])] = value
        else:
            place.insert(chance.randint(0, len(place)), value)
    return answer


@given(
    answer=st.sampled_from(ANSWERS),
    changes=st.lists(st.tuples(names, values), max_size=3),
    provider=st.sampled_from([None, "anthropic", "azure_openai", "langchain"]),
    keep_raw=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_both_ways_say_the_same(answer, changes, provider, keep_raw, seed):
    data = changed(answer, changes, Random(seed))
    if "messages" in data:
        del data["messages"]  # a state, which is no answer
    normalizer = BatchResultNormalizer(
        provider=provider, model="asked", session_id="s1", keep_raw=keep_raw
    )

    assert normalizer.normalize_data(data) == normalizer.normalize(data)
    assert normalizer.normalize_stream(data) == normalizer.normalize(data)


def test_plain_answers_of_every_provider_go_the_short_way():
    for answer in ANSWERS:
        told = plain_answer(
            answer, provider=None, default_model=None, session_id=None, keep_raw=False
        )
        assert told is not None
        assert (told.text, told.stop_reason, told.usage.output_tokens >= 14) == (
            TEXT,
            "success",
            True,
        )
