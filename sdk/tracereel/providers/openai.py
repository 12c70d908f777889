"""Reader of OpenAI chat completions."""

from typing import Any

from tracereel.providers.answers import Answer, AnswerPiece
from tracereel.providers.blocks import add_request, read_blocks, said
from tracereel.providers.citations import read_citation
from tracereel.providers.failures import read_failure
from tracereel.providers.reading import items, mapping, text, word
from tracereel.providers.usage import usage_of


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
    for answer in answers:
        answer.model = text(response.get("model"))
        answer.message_id = text(response.get("id"))
    answers[-1].usage = usage_of(response)
    return answers


def read_message(answer: Answer, message: dict[str, Any]) -> None:
    """Add the reasoning, text and tool calls of an assistant message."""
    for name in ("reasoning_content", "reasoning"):  # sent by some OpenAI-compatible servers
        if thought := text(message.get(name)):
            answer.pieces.append(AnswerPiece("thinking", len(answer.pieces), thought, raw=thought))
            break
    content = message.get("content")
    if isinstance(content, str):
        annotations = items(message.get("annotations"))
        citations = tuple(
            found for each in annotations if (found := read_citation(each, content)) is not None
        )
        if content:
            piece = said(answer.role, content, len(answer.pieces), citations=citations, raw=content)
            answer.pieces.append(piece)
    else:
        read_blocks(answer, content)
    answer.refusal = text(message.get("refusal")) or answer.refusal
    calls = items(message.get("tool_calls"))
    if isinstance(old := message.get("function_call"), dict):
        calls = [*calls, {"function": old}]
    for call in calls:
        _read_call(answer, call, len(answer.pieces))


def _read_call(answer: Answer, call: Any, index: int) -> None:
    given = mapping(call)
    function = mapping(given.get("function") or given.get("custom"))
    name = text(function.get("name"))
    if name is None:
        answer.report("malformed_block", "a tool call names no tool", index, call)
        return
    arguments = function.get("arguments")
    add_request(
        answer,
        index,
        identity=text(given.get("id")),
        name=name,
        arguments=function.get("input") if arguments is None else arguments,
        raw=call,
    )


def _read_filter(answer: Answer, choice: dict[str, Any]) -> None:
    """Set the refusal to Azure's content filter results."""
    results = mapping(choice.get("content_filter_results"))
    filtered = sorted(name for name, each in results.items() if mapping(each).get("filtered"))
    if filtered and answer.refusal is None:
        answer.refusal = f"filtered: {', '.join(filtered)}"
