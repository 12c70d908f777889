"""What the SDK records of content is what the collector returns, up to the limits and beyond."""

import pytest

import tracereel
from tests.support.collector import http
from tests.support.waiting import wait_until
from tracereel._core import recorder as _recorder

MIB = 1024 * 1024
HOSTILE = 'é🙂\n\t"\\ \u2028 </script> ,"content_bytes":9,"input":{ …[5 characters removed]'


@pytest.fixture(params=["redaction off", "redaction on"])
def recording(request, collector, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEREEL_RAISE_INTERNAL_ERRORS", "1")
    before = _recorder._active
    tracereel.configure(
        endpoint=collector.url,
        spool_dir=tmp_path / "spool",
        redaction=request.param == "redaction on",
    )
    yield
    tracereel.shutdown()
    _recorder._active = before


def recorded(collector, messages, answer):
    """Return the content of a recorded model call with these messages."""
    place = {}

    @tracereel.traced_llm("m")
    def ask(messages):
        execution = tracereel.current_execution()
        place.update(trace=execution.trace_id, step=execution.span_id)
        return {"role": "assistant", "content": answer}

    ask(messages)
    assert tracereel.flush(60).dropped == 0
    path = f"{collector.url}/v1/traces/{place['trace']}/steps/{place['step']}/content"
    # The event and its content are rows of two tables, which appear one after the other.
    wait_until(lambda: http("GET", path).json().get("input"))
    return http("GET", path).json()


def texts(messages):
    return [part["text"] for message in messages for part in message["parts"]]


@pytest.mark.parametrize("size", [10, 5_000, 200_000])
def test_a_conversation_comes_back_as_it_was_sent(recording, collector, size):
    turns = min(150, 2 * MIB // size)
    sent = [
        {
            "role": ("user", "assistant")[turn % 2],
            "content": f"{turn} {HOSTILE} " + "word " * (size // 5),
        }
        for turn in range(turns)
    ]
    answer = HOSTILE + "x" * size

    found = recorded(collector, sent, answer)

    assert texts(found["input"]) == [each["content"] for each in sent]
    assert texts(found["output"]) == [answer]
    assert "cut" not in found


def test_a_conversation_beyond_the_limit_keeps_its_ends(recording, collector):
    sent = [{"role": "user", "content": f"{turn} " + "word " * 20_000} for turn in range(60)]

    found = recorded(collector, sent, "done")

    kept = texts(found["input"])
    assert (kept[0], kept[-1]) == (sent[0]["content"], sent[-1]["content"])
    assert found["cut"]["removed"] == len(sent) - len(kept) > 0
    assert found["cut"]["length"] == len(sent)
