"""What was sent is what the event holds: all of it, or everything but the secrets."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracereel import traced_agent, traced_llm, traced_pipeline, traced_step, traced_tool
from tracereel.testing import EventRecorder

words = st.text(st.characters(codec="utf-8"), max_size=200).filter(lambda text: "@" not in text)
long = st.integers(1, 40).map(lambda count: 'ein Wort, \n"zitiert" — ' * 50 * count)
texts = words | long
data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abcxyz", min_size=1, max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)
messages = st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": data}), min_size=1)
quick = settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)


def recorded(sent: list[Any], answer: Any, **options: Any) -> list[dict[str, Any]]:
    @traced_tool("t")
    def tool(given: Any) -> Any:
        return given

    @traced_llm("m")
    def ask(messages: Any) -> Any:
        return answer

    @traced_agent("a")
    def agent(anything: Any) -> Any:
        ask(anything)
        return tool(answer)

    with EventRecorder(**options) as events:
        agent(sent)
    return list(events)


@quick
@given(messages, data)
def test_content_is_recorded_as_it_was_sent(sent: list[Any], answer: Any) -> None:
    began, called, used, done = recorded(sent, answer, redaction=False)
    assert began["input"] == {"anything": sent}
    assert called["input_messages"] == sent
    assert called["output_messages"] == (None if answer is None else [answer])
    assert (used["arguments"], used["result"]) == ({"given": answer}, answer)
    assert done["output"] == answer


@quick
@given(st.lists(long, max_size=5), st.sampled_from(["ana@example.org", "sk-ant-a1b2c3d4e5f6g7"]))
def test_redaction_hides_secrets_and_keeps_the_rest(sent: list[str], secret: str) -> None:
    turns = [{"role": "user", "content": f"{text} {secret} and on"} for text in sent]
    turns.append({"role": "user", "content": f"{secret} at the end: {secret}"})
    began, called, _, _ = recorded(turns, "done")
    for kept in (called["input_messages"], began["input"]["anything"]):
        for turn, found in zip(turns, kept, strict=True):
            before, after = turn["content"].split(secret)[0], turn["content"].split(secret)[-1]
            assert found["content"].startswith(before + "[redacted:")
            assert found["content"].endswith("]" + after)
            assert secret not in found["content"]


def test_state_with_messages_is_summarised_by_question_and_answer() -> None:
    question = {"role": "user", "content": "When is it?"}
    reply = {"role": "assistant", "content": "At ten."}

    @traced_step("node")
    def node(state: Any) -> Any:
        return {"messages": [*state["messages"], reply]}

    @traced_agent("a")
    def agent(state: Any) -> Any:
        return node(state)

    @traced_pipeline("p")
    def pipeline(state: Any) -> Any:
        return agent(state)

    with EventRecorder() as events:
        pipeline({"messages": [{"role": "system", "content": "Be brief."}, question]})

    asked = [
        each.get("input_summary") or each.get("user_prompt")
        for each in events.events
        if each["event_type"].endswith(".started") or "step" in each["event_type"]
    ]
    answers = [each["output_summary"] for each in events.events if each.get("output_summary")]
    assert asked == ["When is it?"] * 3
    assert answers == ["At ten."] * 3
