"""The recording of an SSE agent does not depend on how its frames are split."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tracereel.integrations.sse import wrap
from tracereel.testing import EventRecorder

DONE = "agent.execution.completed"
CANCELLED = "agent.execution.cancelled"
TOOL = "agent.tool.called"


def frame(event, data):
    return f"event: {event}\ndata: {data}\n\n"


def token(text, **more):
    return frame("token", json.dumps({"text": text, **more}))


END = frame("done", '{"threadId": "t1"}')
texts = st.text(max_size=5) | st.sampled_from(["\ud83d", "ñ", "line\nfeed", "event: done"])
frames = st.one_of(
    st.builds(token, texts),
    st.builds(token, texts, threadId=st.sampled_from(["t1", "t2"])),
    st.builds(lambda text: frame("token", json.dumps({"content": text})), texts),
    st.builds(lambda text: frame("token", json.dumps({"text": text}, ensure_ascii=False)), texts),
    st.sampled_from(
        [
            frame("token", "no JSON"),
            frame("token", '{"text": 7}'),
            frame("token", '{"text": "a"}').replace("\n", "\r\n"),
            frame("tool_status", '{"tool": "search", "args": {}}'),
            frame("tool_status", '{"tool": "look", "id": "c1", "status": "started"}'),
            frame("tool_status", '{"tool": "look", "id": "c1", "status": "completed"}'),
            frame("ping", "{}"),
            ": a comment\n\n",
        ]
    ),
)
TIMES = ("longest_gap_ms", "time_to_first_token_ms", "tokens_per_second", "execution_time_seconds")
SAID = (
    *("output_summary", "output_summary_truncated", "output_items", "output_size_bytes"),
    *("session_id", "rounds", "tool_calls", "frames_malformed", "frames_ignored", "streams"),
)


def outcome(pieces):
    with EventRecorder() as events:
        list(wrap(iter(pieces), "ss-expert", round_limit=6))
    (done,) = events.get_events(DONE)
    tools = [(each["tool_name"], each.get("ended_by")) for each in events.get_events(TOOL)]
    return {name: done.get(name) for name in SAID}, tools, [name in done for name in TIMES[:2]]


@settings(max_examples=40, deadline=None)
@given(parts=st.lists(frames, max_size=30), as_bytes=st.booleans())
def test_whole_and_split_frames_are_recorded_alike(parts, as_bytes):
    whole = [*parts, END]
    pieces = [letter for part in whole for letter in part]
    if as_bytes:
        whole = [part.encode("utf-8", "replace") for part in whole]
        pieces = [piece.encode("utf-8", "replace") for piece in pieces]

    assert outcome(whole) == outcome(pieces)


def test_many_tokens_are_all_counted_and_kept_in_order():
    words = [f"w{number} " for number in range(200)]

    said, _, timed = outcome([*map(token, words), END])

    assert said["output_items"] == len(words)
    assert said["output_summary"].startswith("w0 w1 w2 ")
    assert all(timed)


def test_partial_output_is_recorded_when_the_reader_stops():
    with EventRecorder() as events:
        stream = wrap(iter([token("one "), token("two "), token("three"), END]), "ss-expert")
        next(stream)
        next(stream)
        stream.close()

    (left,) = events.get_events(CANCELLED)
    assert left["output_items"] == 2
    assert left["partial_output"] == {"items": 2, "summary": "one two "}
