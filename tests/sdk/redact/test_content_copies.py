"""Content is kept whole up to the limits; beyond them its middle is removed, with a mark."""

import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel import semconv
from tracereel._redact import values
from tracereel._redact.content import MAX_VALUES, ContentCopies
from tracereel._redact.event_redaction import Privacy
from tracereel._redact.rules import OFF, Redaction, Rule
from tracereel._redact.text_limits import Cut

REMOVED = re.compile(r"…\[(\d+) characters removed\]…")
SMALL = ContentCopies(message_bytes=4096, content_bytes=16_384)
WHOLE = ContentCopies()

texts = st.text(max_size=60) | st.sampled_from(["x" * 5000, "é🙂" * 900, '\n"\\' * 700])
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | texts
)
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=30,
)
messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": data})
)


@given(data)
def test_data_within_the_limits_is_copied_unchanged(value: Any) -> None:
    copy = WHOLE.value(value)
    try:
        sent = json.loads(json.dumps(value, ensure_ascii=False).encode())
    except UnicodeEncodeError:  # a lone surrogate is not JSON
        return
    if "inf" not in json.dumps(value).lower():
        assert json.loads(msgspec.json.encode(copy)) == sent


@given(messages)
def test_messages_within_the_limits_are_copied_unchanged(value: list[Any]) -> None:
    assert WHOLE.messages(value) == [WHOLE.value(each) for each in value]
    assert len(WHOLE.messages(value)) == len(value)


@given(messages, st.integers(4096, 40_000), st.integers(16_384, 80_000))
def test_the_content_of_an_event_is_within_the_limit(
    value: list[Any], message: int, content: int
) -> None:
    copies = ContentCopies(message_bytes=message, content_bytes=content)
    event = {
        "event_type": semconv.LLM_CALLED,
        "input_messages": copies.messages(value),
        "output_messages": copies.messages(value[::-1]),
        "result": copies.value(value),
        "content": "\n" * content,
    }
    line = copies.line(event)
    assert len(line.tail) <= content + 1024
    decoded = msgspec.json.decode(b"".join(line))
    assert decoded["event_type"] == semconv.LLM_CALLED


@given(st.lists(st.text(max_size=3000), min_size=2, max_size=40))
def test_the_first_and_last_message_always_stay(sent: list[str]) -> None:
    value = [{"role": "user", "content": text, "n": n} for n, text in enumerate(sent)]
    kept = SMALL.messages(value)
    assert kept[0]["n"] == 0
    assert kept[-1]["n"] == len(sent) - 1
    marks = [each for each in kept if each["role"] == "tracereel"]
    removed = sum(each["removed_messages"] for each in marks)
    assert len(marks) <= 1
    assert len(kept) - len(marks) + removed == len(sent)
    assert [each["n"] for each in kept if "n" in each] == sorted(
        each["n"] for each in kept if "n" in each
    )


@given(st.text(max_size=30), st.sampled_from(["x", "é", "🙂", "\ud800"]), st.text(max_size=30))
def test_a_long_text_keeps_both_ends_and_its_length(first: str, middle: str, last: str) -> None:
    value = first + middle * 9000 + last
    kept = SMALL.value(value)
    assert type(kept) is Cut
    assert len(kept.encode()) <= 4096
    begin, removed, end = REMOVED.split(kept)
    assert len(begin) + int(removed) + len(end) == len(value) or middle == "\ud800"
    assert kept.about["length"] == len(value)
    if (first + last).isascii() and middle != "\ud800":
        assert kept.startswith(first)
        assert kept.endswith(last)


def test_only_the_longest_texts_of_a_large_message_are_cut() -> None:
    parts = [{"type": "text", "text": name * size} for name, size in (("a", 9000), ("b", 100))]
    (kept,) = SMALL.messages([{"role": "user", "content": [*parts, {"type": "end"}]}])
    assert REMOVED.search(kept["content"][0]["text"])
    assert kept["content"][1:] == [parts[1], {"type": "end"}]


@pytest.mark.parametrize("kind", [list, tuple, deque])
def test_many_items_keep_the_first_and_the_last(kind: type) -> None:
    kept = WHOLE.value(kind(range(MAX_VALUES * 3)))
    (at,) = [number for number, each in enumerate(kept) if type(each) is str]
    assert kept[:at] == list(range(at))
    assert kept[-1] == MAX_VALUES * 3 - 1
    removed = int(re.findall(r"\d+", kept[at])[0])
    assert len(kept) - 1 + removed == MAX_VALUES * 3


def test_many_fields_keep_the_first_and_the_last() -> None:
    kept = WHOLE.value({f"k{number}": number for number in range(MAX_VALUES * 3)})
    assert kept["k0"] == 0
    assert kept[f"k{MAX_VALUES * 3 - 1}"] == MAX_VALUES * 3 - 1
    assert re.fullmatch(r"…\[\d+ fields removed\]…", kept["…"])


def test_a_graph_state_of_two_hundred_messages_is_whole() -> None:
    call = {"name": "search", "args": {"q": "x", "n": [1, 2, 3]}, "id": "c", "type": "tool_call"}
    state = {"messages": [{"type": "ai", "content": "y" * 900, "tool_calls": [call]}] * 600}
    assert WHOLE.value(state) == state


class Client:
    """Object that is no data: its fields have many more."""

    def __init__(self) -> None:
        self.pool = {f"c{number}": [number] * 10 for number in range(100)}


class Booking:
    """Object with few fields."""

    def __init__(self) -> None:
        self.name = "Ana"
        self._secret = "x"


@dataclass
class Order:
    """Declared data of any size."""

    items: list[int] = field(default_factory=lambda: list(range(1000)))


def test_clients_and_open_files_are_described_and_data_is_copied(tmp_path: Any) -> None:
    with (tmp_path / "f").open("wb", buffering=0) as file:
        given = {"client": Client(), "file": file, "booking": Booking(), "order": Order()}
        kept = WHOLE.arguments(given.items())
    assert kept["client"] == "<Client>"
    assert len(json.dumps(kept["file"])) < 200
    assert kept["booking"] == {"name": "Ana"}
    assert kept["order"] == {"items": list(range(1000))}


def test_a_large_context_object_is_described() -> None:
    kept = WHOLE.arguments([("ctx", Order()), ("context", Booking()), ("order", Order())])
    assert kept["ctx"] == "<Order>"
    assert kept["context"] == {"name": "Ana"}
    assert kept["order"] == {"items": list(range(1000))}


def test_nesting_beyond_the_limit_says_so() -> None:
    deep: Any = "end"
    for _ in range(60):
        deep = [deep]
    assert "…[nested deeper than 32 levels]…" in json.dumps(WHOLE.value(deep), ensure_ascii=False)


def test_the_value_of_a_secret_whose_name_is_removed_is_redacted() -> None:
    privacy = Privacy(Redaction(), capture_content=True)
    copies = ContentCopies(privacy, 4096, 16_384)
    secret = "-----BEGIN PRIVATE KEY-----\n" + "Ab1/" * 700 + "\n-----END PRIVATE KEY-----\n"
    text = "x " * 9000 + secret + "y " * 200
    kept = copies.value(text)
    assert REMOVED.search(kept)
    assert "Ab1/" not in kept
    assert kept.endswith("y y ")


words = st.text("abc é🙂\n", max_size=300)
secrets = st.sampled_from(["ana@example.org", "sk-ant-a1b2c3d4e5f6g7h8", "4111 1111 1111 1111"])


@given(st.lists(words | secrets, min_size=1, max_size=30))
def test_redaction_removes_secrets_and_nothing_else(parts: list[str]) -> None:
    text = " | ".join(parts)
    for redaction in (OFF, Redaction()):
        event: dict[str, Any] = {
            "event_type": semconv.LLM_CALLED,
            "input_messages": WHOLE.messages([{"role": "user", "content": text}]),
            "result": WHOLE.value(text),
        }
        Privacy(redaction, capture_content=True).clean(event)
        kept = event["result"]
        assert event["input_messages"] == [{"role": "user", "content": kept}]
        if redaction is OFF:
            assert kept == text
        else:
            pairs = zip(kept.split(" | "), parts, strict=True)
            assert all(new == old or new.startswith("[redacted:") for new, old in pairs)
            assert "ana@" not in kept


hostile = st.recursive(
    scalars | secrets,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["password", "pin", "api_key", "x", "ana@example.org", "token"]), inner
        )
    ),
    max_leaves=20,
)


@given(hostile)
def test_copies_are_redacted_like_events(value: Any) -> None:
    privacy = Privacy(Redaction(rules=[Rule("code", r"x{3,}")]), capture_content=True)
    later = {"event_type": semconv.TOOL_CALLED, "result": WHOLE.value(value)}
    privacy.clean(later)
    event = {"event_type": semconv.TOOL_CALLED, "result": ContentCopies(privacy).value(value)}
    privacy.clean(event, None, privacy)
    assert event == later


def test_copies_are_not_redacted_if_a_field_has_its_own_rule() -> None:
    privacy = Privacy(Redaction(fields={"result": "keep"}), capture_content=True)
    copy = ContentCopies(privacy).value("ana@example.org")
    event = {"event_type": semconv.TOOL_CALLED, "result": copy, "arguments": copy}
    privacy.clean(event, None, privacy)
    assert event["result"] == "ana@example.org"
    assert event["arguments"] == "[redacted:email]"


def test_content_of_another_configuration_is_redacted_again() -> None:
    event = {"event_type": semconv.TOOL_CALLED, "result": "ana@example.org"}
    before = Privacy(OFF, capture_content=True)
    Privacy(Redaction(), capture_content=True).clean(event, None, before)
    assert event["result"] == "[redacted:email]"


@given(data)
def test_sizes_and_summaries_of_copies_are_those_of_the_value(value: Any) -> None:
    described = WHOLE.described(value)
    assert described.data == WHOLE.value(value)
    if depth(value) <= 4:
        assert described.summary == values.summary(value)
    assert described.size in (values.size(value), values.encoded_size(described.data))


@given(st.dictionaries(st.text(), data))
def test_sizes_and_summaries_of_arguments_are_those_of_the_values(given: dict[str, Any]) -> None:
    pairs = list(given.items())
    described = WHOLE.described_arguments(pairs)
    assert described.data == WHOLE.arguments(pairs)
    if depth(given) <= 4:
        assert described.summary == values.call_summary(pairs)
    exactly = sum(values.encoded_size(value) for value in described.data.values())
    assert described.size in (sum(map(values.size, given.values())), exactly)


def test_a_text_that_was_clean_before_is_redacted_as_the_value_of_a_secret() -> None:
    privacy = Privacy(Redaction(), capture_content=True)
    copies = ContentCopies(privacy)
    assert copies.value({"city": "Lima", "password": "Lima"}) == {
        "city": "Lima",
        "password": "[redacted:field]",
    }
    event = {"event_type": semconv.TOOL_CALLED, "tool_name": "Lima", "password": "Lima"}
    privacy.clean(event)
    assert event["password"] == "[redacted:field]"


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max([depth(each) for each in inner], default=0)
    return 0


def test_redaction_keeps_the_end_of_a_text() -> None:
    """Marks that are longer than their secrets used to push the end out."""
    text = "write to " + "a@b.io and " * 50 + "the end"
    event = {"event_type": semconv.TOOL_CALLED, "result": text, "arguments": {"text": text}}
    Privacy(Redaction(), capture_content=True).clean(event)
    expected = text.replace("a@b.io", "[redacted:email]")
    assert event["result"] == expected
    assert event["arguments"] == {"text": expected}


def test_redacted_summaries_and_names_have_the_lengths_of_the_contract() -> None:
    text = "a@b.io " * 28
    event = {"event_type": semconv.TOOL_CALLED, "input_summary": text, "tool_name": text[:190] * 2}
    long = {"event_type": semconv.TOOL_CALLED, "input_summary": "x" * 900}
    privacy = Privacy(Redaction(), capture_content=True)
    privacy.clean(event)
    privacy.clean(long)
    assert len(event["input_summary"]) == 200
    assert len(event["tool_name"]) <= 380
    assert long["input_summary"] == "x" * 900
