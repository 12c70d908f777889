"""Lists that repeat items of earlier lists: size on the tape, and reading them back."""

import hashlib
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracereel
from tests.support.replay_trial import recording
from tracereel.tape import format as tape_format
from tracereel.tape import payloads, spliced_lists

MESSAGES = st.builds(
    lambda number, length: {"role": "user", "content": f"{number} " + "word " * length},
    st.integers(0, 12),
    st.integers(1, 140),
)
EDITS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6), st.lists(MESSAGES, max_size=5)), max_size=12
)


def blobs() -> tuple[payloads.Payloads, list[dict[str, Any]]]:
    records: list[dict[str, Any]] = []
    return payloads.Payloads(records.append), records


def size_of(records: list[dict[str, Any]]) -> int:
    return sum(len(each["v"]) for each in records)


def message(number: int, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": f"{number}: " + "some words " * 12}


@given(st.lists(MESSAGES, min_size=8, max_size=30), EDITS)
@settings(max_examples=80, deadline=None)
def test_every_version_of_an_edited_list_is_read_as_it_was_put(
    messages: list[Any], edits: list[tuple[int, int, list[Any]]]
) -> None:
    kept, records = blobs()
    put: list[tuple[str | None, Any]] = []
    for at, gone, new in [(0, 0, []), *edits]:
        messages = [*messages[:at], *new, *messages[at + gone :]]
        data = {"messages": messages, "model": "m"}
        put.append((kept.put(data), data))

    found = payloads.blobs_of(records)
    assert [payloads.read(reference, found) for reference, _ in put] == [data for _, data in put]


def test_each_short_message_of_a_long_conversation_is_kept_once() -> None:
    kept, records = blobs()
    messages = [message(0, "system")]
    references = []
    for number in range(1, 800):
        messages += [message(number), message(number, "assistant")]
        references.append(kept.put({"messages": messages}))

    assert size_of(records) < 2.5 * len(msgspec.json.encode(messages))
    found = payloads.blobs_of(records)
    assert payloads.read(references[-1], found) == {"messages": messages}
    assert payloads.read(references[300], found) == {"messages": messages[:603]}


@pytest.mark.parametrize("changes", ["the first message", "the last message"])
def test_a_message_that_changes_with_every_call_does_not_repeat_the_others(changes: str) -> None:
    kept, records = blobs()
    messages = [message(0, "system")]
    last: str | None = ""
    for number in range(1, 300):
        messages += [message(number), message(number, "assistant")]
        place = 0 if changes == "the first message" else len(messages) - 1
        sent = [*messages]
        sent[place] = {**sent[place], "at": number}
        last = kept.put({"messages": sent})

    assert size_of(records) < 4 * len(msgspec.json.encode(messages))
    assert payloads.read(last, payloads.blobs_of(records)) == {"messages": sent}


def test_equal_messages_do_not_break_a_list_into_pieces() -> None:
    kept, records = blobs()
    messages: list[Any] = []
    for number in range(300):
        messages += [{"role": "user", "content": "go on " * 10}, message(number, "assistant")]
        last = kept.put({"messages": messages})

    assert size_of(records) < 4 * len(msgspec.json.encode(messages))
    assert payloads.read(last, payloads.blobs_of(records)) == {"messages": messages}


def test_a_chain_of_more_lists_than_the_limit_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spliced_lists, "MAX_STEPS", 30)
    kept, records = blobs()
    messages = [message(number) for number in range(20)]
    for number in range(40):
        messages.append(message(100 + number))
        last = kept.put(messages)

    whole = [each for each in records if each["v"].startswith("[")]
    assert 2 <= len(whole) <= 8
    assert payloads.read(last, payloads.blobs_of(records)) == messages


def _named(text: str) -> tuple[str, str]:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest(), text


def test_a_small_tape_of_pieces_does_not_expand_for_long() -> None:
    name, text = _named("[1,2,3,4,5,6,7,8]")
    found, length = {name: text}, 8
    for _ in range(20):
        piece = f'{{"h":"{name}","from":0,"to":{length}}}'
        name, text = _named(f'{{"$":"spliced","v":[{",".join([piece] * 20)}]}}')
        found[name], length = text, 20 * length

    begun = time.process_time()
    with pytest.raises(ValueError, match="longer than"):
        payloads.read(f"#{name}", found)
    assert time.process_time() - begun < 5  # without the limit it takes years


@pytest.mark.parametrize(
    "piece",
    [
        {"h": "list", "from": 0, "to": 9},
        {"h": "list", "from": -1, "to": 1},
        {"h": "list", "from": 1, "to": 1},
        {"h": "list", "from": "0", "to": 1},
        {"h": "text", "from": 0, "to": 1},
        {"h": "gone", "from": 0, "to": 1},
        {"from": 0, "to": 1},
        "list",
        None,
    ],
)
def test_a_piece_that_no_list_has_is_refused(piece: Any) -> None:
    found = {"list": "[1,2,3]", "text": '"x"'}
    pieces = [piece] if piece is not None else None
    found["top"] = msgspec.json.encode({"$": "spliced", "v": pieces}).decode()

    with pytest.raises(ValueError, match=r"piece|items|no list|not on the tape"):
        payloads.read("#top", found)


def test_a_conversation_of_many_turns_has_a_whole_tape_and_replays() -> None:
    @tracereel.traced_llm("model", provider="test")
    def ask(messages: list[dict[str, Any]]) -> str:
        return f"answer {len(messages)} " + "and so on " * 15

    @tracereel.traced_agent("assistant")
    def talk(turns: int) -> int:
        messages = [message(0, "system")]
        for number in range(turns):
            messages.append(message(number))
            messages.append({"role": "assistant", "content": ask(list(messages))})
        return len(messages)

    with recording() as events:
        talk(200)
    tape = tape_format.parse(events)
    assert (tape.state, tape.reasons) == ("yes", ())
    assert len(b"".join(tape.lines())) < 300_000  # one copy of each message has 60,000 bytes
    with tracereel.replay(tape) as run:
        talk(200)
    assert run.report.verdict == "same"
