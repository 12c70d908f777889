"""Contents of two steps: message by message, without ids and times that are new in every run."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from tracereel.content import Message, ModelCallContent, Part, ToolCallContent, ValueContent
from tracereel_collector.query.content_diff import content_changes
from tracereel_collector.query.fresh_ids import FreshIds, without_fresh


def text(role, said):
    return Message(role=role, parts=(Part(type="text", text=said),))


def call(number, value):
    return Message(
        role="assistant", parts=(Part(type="tool_call", id=number, name="f", value=value),)
    )


def model(*messages, answer="ok", **fields):
    return ModelCallContent(input=messages, output=(text("assistant", answer),), **fields)


def kinds(change):
    return [(each["change"], each.get("count", 1)) for each in change["messages"]]


def test_a_changed_message_is_a_change_and_the_same_ones_are_counted():
    same = [text("system", "s"), text("user", "a"), text("assistant", "b")]
    found = content_changes(model(*same, text("user", "Lima")), model(*same, text("user", "Quito")))

    assert set(found) == {"input"}
    assert kinds(found["input"]) == [("same", 3), ("changed", 1)]
    assert found["input"]["messages"][1]["a"] == {"at": 3, "role": "user", "text": "Lima"}
    assert (found["input"]["a"], found["input"]["b"]) == ("Lima", "Quito")


def test_inserted_and_deleted_messages_stand_alone():
    one, other, more = text("user", "1"), text("user", "2"), text("assistant", "3")
    found = content_changes(model(one, other), model(one, more, other))

    assert kinds(found["input"]) == [("same", 1), ("added", 1), ("same", 1)]
    back = content_changes(model(one, more, other), model(one, other))
    assert kinds(back["input"]) == [("same", 1), ("removed", 1), ("same", 1)]


def test_ids_and_times_that_are_new_in_every_run_are_no_difference():
    def run(number):
        ticket = str(uuid.uuid5(uuid.NAMESPACE_DNS, str(number)))
        return model(
            text("user", f"ticket {ticket} of 2026-11-18T14:0{number}:00.123Z"),
            call(f"call_{number}abcdef12", {"ticket": ticket, "created": 1_763_000_000 + number}),
            text(
                "tool", f"msg_0{number}ABCdef99 in trace {number:032x}".replace("0" * 20, "ab" * 10)
            ),
        )

    assert content_changes(run(1), run(2)) == {}


def test_a_difference_has_the_ids_that_stand_for_each_other():
    def said(ticket, call, second, day):
        return model(text("user", f"ticket {ticket}\n{call} at 2026-11-18T14:00:0{second}Z, {day}"))

    one, other = str(uuid.uuid4()), str(uuid.uuid4())
    changes = content_changes(
        said(one, "call_abc123", 1, "Monday"), said(other, "call_xyz789", 2, "Friday")
    )

    (change,) = changes["input"]["messages"]
    times = [f"2026-11-18T14:00:0{second}Z" for second in (1, 2)]
    assert change["fresh"] == [(one, other), ("call_abc123", "call_xyz789"), tuple(times)]


def test_an_id_that_refers_to_something_else_is_a_difference():
    one, other = str(uuid.uuid4()), str(uuid.uuid4())
    a = model(text("user", one), text("user", other), text("user", one))
    b = model(text("user", one), text("user", other), text("user", other))

    assert kinds(content_changes(a, b)["input"]) == [("same", 2), ("changed", 1)]


def test_numbers_days_and_words_are_content():
    for one, other in (
        ("on 2026-11-18", "on 2026-11-19"),
        ("at 10:30", "at 10:45"),
        ("call_center_agent", "call_center_clerk"),
        ("4111111111111111", "4111111111111112"),
        ("1 item", "2 items"),
    ):
        assert without_fresh(one) == one
        assert content_changes(model(text("user", one)), model(text("user", other))), one


def test_parameters_tools_and_values_are_compared_by_value():
    a = model(text("user", "x"), parameters={"temperature": 0.2, "top_p": 1})
    b = model(text("user", "x"), parameters={"temperature": 0.7, "top_p": 1})
    assert content_changes(a, b)["parameters"]["keys"]["changed"] == ["temperature"]

    tools = [ToolCallContent(arguments={"q": each}, result=[1]) for each in ("a", "b")]
    assert set(content_changes(*tools)) == {"input"}
    values = [ValueContent(input="x", output={"n": each}) for each in (1, 2)]
    assert set(content_changes(*values)) == {"output"}


MESSAGES = st.lists(
    st.builds(text, st.sampled_from(["user", "assistant"]), st.sampled_from(["a", "b", "c"])),
    max_size=8,
)


@given(MESSAGES, MESSAGES)
def test_every_message_of_both_sides_is_in_one_entry(one, other):
    found = content_changes(model(*one), model(*other)).get("input")

    assert content_changes(model(*one), model(*one)) == {}
    assert (found is None) == (one == other)
    if found:
        for side, whole in (("a", one), ("b", other)):
            places = [
                at
                for each in found["messages"]
                if each[side] is not None
                for at in range(each[side]["at"], each[side]["at"] + each.get("count", 1))
            ]
            assert places == list(range(len(whole)))


@given(st.text(max_size=200))
def test_ids_of_equal_texts_agree(said):
    assert FreshIds().agree(said, said)


def test_states_of_conversations_are_compared_message_by_message():
    def state(*said, **others):
        listed = [{"type": "human", "content": each, "id": str(uuid.uuid4())} for each in said]
        return ValueContent(input={"messages": listed, **others}, output="done")

    assert content_changes(state("a", "b"), state("a", "b")) == {}
    found = content_changes(state("a", "Lima"), state("a", "Quito"))
    assert kinds(found["input"]) == [("same", 1), ("changed", 1)]
    assert found["input"]["messages"][1]["b"] == {"at": 1, "role": "user", "text": "Quito"}
    assert "others" not in found["input"]

    both = content_changes(state("a", city="Lima"), state("b", city="Quito"))["input"]
    assert kinds(both) == [("changed", 1)]
    assert both["others"]["without"] == "messages"
    assert both["others"]["keys"]["changed"] == ["city"]
    only = content_changes(state("a", city="Lima"), state("a", city="Quito"))["input"]
    assert (only["a"], only["b"]) == ('{"city":"Lima"}', '{"city":"Quito"}')
    assert "messages" not in only
