"""Shell command that re-executes a run; it must be safe to paste."""

import shlex

from hypothesis import example, given
from hypothesis import strategies as st

from tracereel.tape import format as tape_format
from tracereel_collector.query.replayable import _command

IDS = st.from_regex(r"[A-Za-z0-9_.:-]{1,40}", fullmatch=True)
HOSTILE = (
    "shop:$(touch canary)",
    "shop:book; touch canary",
    "shop`id`:book",
    "shop:book\ntouch canary",
    "shop:book --fork",
    "shop:book\r\x1b[2K",
    "-x:y",
    "shop:'",
    "shop:book\u202e",
)
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))


@given(trace_id=IDS, entry=texts, is_method=st.booleans())
@example(trace_id="abc", entry="shop; touch canary;:Desk.serve", is_method=True)
@example(trace_id="--fork", entry="shop:book", is_method=False)
@example(trace_id="abc", entry="shop.web:Desk.serve", is_method=True)
def test_a_command_holds_dotted_names_and_the_id_and_nothing_else(trace_id, entry, is_method):
    header = {"r": "run", "trace_id": trace_id, "entry": entry, "object": is_method}
    tape = tape_format.parse([{"tape_id": "t", "part": 0, "records": [header]}])

    command = _command(trace_id, tape)

    if trace_id.startswith("-"):
        assert command is None
        return
    assert command.isprintable()
    words = shlex.split(command)
    assert words[:4] == ["tracereel", "replay", trace_id, "--run"]
    assert len(words) <= 5
    for named in words[4:]:
        module, _, name = named.partition(":")
        assert all(part.isidentifier() for part in f"{module}.{name}".split("."))


def test_a_function_is_called_by_itself_and_a_method_needs_its_object():
    def command(**header):
        records = [{"r": "run", "trace_id": "abc", **header}]
        return _command("abc", tape_format.parse([{"tape_id": "t", "part": 0, "records": records}]))

    assert command(entry="shop.web:book") == "tracereel replay abc --run"
    assert command() == "tracereel replay abc --run module:function"
    method = command(entry="shop.web:Desk.serve", object=True)
    assert method == "tracereel replay abc --run shop.web:OBJECT.serve"
