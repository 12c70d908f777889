"""Reader of OpenAI chat completions."""

from typing import Any

from tracereel.providers.answers import Answer
from tracereel.providers.blocks import completed, read_blocks
from tracereel.providers.citations import read_citation
from tracereel.providers.failures import read_failure
from tracereel.providers.reading import first_text, get, items, mapping, text, word


def read(response: dict[str, Any], provider: str = "openai") -> list[Answer]:
    """Read the answers, one per choice; the last one has the usage of all."""
    answers = []
    for position, choice in enumerate(items(response.get("choices"))):
        answer = Answer("assistant", provider, candidate_index=position)
        answer.stop_word = word(mapping(choice).get("finish_reason"))
        message = mapping(choice).get("message")
        if isinstance(message, dict):
            read_message(answer, message)
        else:
            answer.report("malformed_message", "a choice has no message", None, choice)
        _read_filter(answer, mapping(choice))
        answers.append(answer)
    if not answers:
        answers.append(Answer("assistant", provider))
        if (failure := read_failure(response)) is not None:
            answers[0].failure = failure
            if failure.code == "content_filter":
                answers[0].stop_word = "content_filter"
                answers[0].refusal = failure.message
        else:
            answers[0].report("malformed_message", "the response has no choices", None, response)
    return completed(answers, response)


def read_message(answer: Answer, message: dict[str, Any]) -> None:
    """Add the reasoning, text and tool calls of an assistant message."""
    # Some OpenAI-compatible servers send their reasoning.
    if thought := first_text(message, "reasoning_content", "reasoning"):
        answer.think(thought, len(answer.pieces), thought)
    content = message.get("content")
    if isinstance(content, str):
        annotations = items(message.get("annotations"))
        citations = tuple(
            found for each in annotations if (found := read_citation(each, content)) is not None
        )
        if content:
            answer.say(content, len(answer.pieces), content, citations)
    else:
        read_blocks(answer, content)
    answer.refusal = text(message.get("refusal")) or answer.refusal
    calls = items(message.get("tool_calls"))
    if isinstance(old := message.get("function_call"), dict):
        calls = [*calls, {"function": old}]
    for call in calls:
        read_call(answer, call, len(answer.pieces))


def read_call(answer: Answer, call: Any, index: int) -> None:
    """Add a tool call of an assistant message."""
    given = mapping(call)
    function = mapping(given.get("function") or given.get("custom"))
    name = text(function.get("name"))
    if name is None:
        answer.report("malformed_block", "a tool call names no tool", index, call)
        return
    arguments = get(function, "arguments", "input")
    answer.request(index, identity=text(given.get("id")), name=name, arguments=arguments, raw=call)


def _read_filter(answer: Answer, choice: dict[str, Any]) -> None:
    """Set the refusal to Azure's content filter results."""
    results = mapping(choice.get("content_filter_results"))
    filtered = sorted(name for name, each in results.items() if mapping(each).get("filtered"))
    if filtered and answer.refusal is None:
        answer.refusal = f"filtered: {', '.join(filtered)}"
