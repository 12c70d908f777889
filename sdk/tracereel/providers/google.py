"""Reader of Google generateContent responses.

Both the wire format (`finishReason`) and the client's objects (`finish_reason`) are read.
"""

from typing import Any, Final

from tracereel.providers.answers import Answer
from tracereel.providers.blocks import completed
from tracereel.providers.citations import read_grounding
from tracereel.providers.failures import read_failure
from tracereel.providers.reading import get, items, mapping, plain_text, text, word

FINISH: Final = ("finishReason", "finish_reason")
_CALL: Final = ("functionCall", "function_call")
_RESPONSE: Final = ("functionResponse", "function_response")
SIGNATURE: Final = ("thoughtSignature", "thought_signature")
_CODE: Final = ("executableCode", "executable_code")
_CODE_RESULT: Final = ("codeExecutionResult", "code_execution_result")
_CODE_TOOL: Final = "code_execution"
SOURCES: Final = (
    *("groundingMetadata", "grounding_metadata", "citationMetadata", "citation_metadata"),
    *("safetyRatings", "safety_ratings", "finishMessage", "finish_message"),
)


def read(response: dict[str, Any], provider: str = "google") -> list[Answer]:
    """Read the answers, one per candidate; the last one has the usage of all."""
    answers = []
    for position, candidate in enumerate(items(response.get("candidates"))):
        answer = Answer("assistant", provider, candidate_index=position)
        if isinstance(candidate, dict):
            _read_candidate(answer, candidate)
        else:
            answer.report("malformed_message", "a candidate is no object", None, candidate)
        answers.append(answer)
    if not answers:
        answer = Answer("assistant", provider)
        feedback = get(response, "promptFeedback", "prompt_feedback")
        answer.stop_word = word(get(feedback, "blockReason", "block_reason"))
        answer.refusal = text(get(feedback, "blockReasonMessage", "block_reason_message"))
        answer.failure = read_failure(response)
        if answer.stop_word is None and answer.failure is None:
            answer.report("malformed_message", "the response has no candidates", None, response)
        answers.append(answer)
    return completed(answers, response)


def _read_candidate(answer: Answer, candidate: dict[str, Any]) -> None:
    answer.stop_word = word(get(candidate, *FINISH))
    for index, part in enumerate(items(mapping(candidate.get("content")).get("parts"))):
        read_part(answer, part, index)
    citations = read_grounding(candidate)
    texts = [piece for piece in answer.pieces if piece.type == "assistant_message"]
    if citations and texts:
        texts[-1].citations = citations


def read_part(answer: Answer, part: Any, index: int) -> None:
    """Add the piece of one part."""
    if not isinstance(part, dict):
        answer.report("malformed_block", "a part is no object", index, part)
    elif (call := get(part, *_CALL)) is not None:
        name = text(get(call, "name"))
        if name is None:
            answer.report("malformed_block", "a function call names no function", index, part)
        else:
            own, arguments = text(get(call, "id")), get(call, "args")
            answer.request(index, identity=own, name=name, arguments=arguments, raw=part)
    elif (response := get(part, *_RESPONSE)) is not None:
        _read_response(answer, mapping(response), index, part)
    elif (code := get(part, *_CODE)) is not None:
        code = mapping(code)
        answer.request(
            index, identity=None, name=_CODE_TOOL, arguments=code, raw=part, at_provider=True
        )
    elif (result := get(part, *_CODE_RESULT)) is not None:
        _read_code_result(answer, mapping(result), index, part)
    elif isinstance(content := part.get("text"), str):
        if content and part.get("thought") is True:
            answer.think(content, index, part)
        elif content:
            answer.say(content, index, part)
    elif get(part, *SIGNATURE) is None:
        kinds = ", ".join(sorted(key for key, each in part.items() if each is not None))
        answer.report("unknown_block", f"parts with {kinds[:80]!r} are not known", index, part)


def is_function_call(part: dict[str, Any]) -> bool:
    """Return whether a part is a tool call."""
    return get(part, *_CALL, *_CODE) is not None


def _read_response(answer: Answer, response: dict[str, Any], index: int, part: Any) -> None:
    content = response.get("response")
    error = mapping(content).get("error")
    answer.respond(
        index,
        identity=text(response.get("id")),
        name=text(response.get("name")),
        content=content,
        shown=plain_text(mapping(content).get("result", mapping(content).get("output"))),
        raw=part,
        error=error if error is None or isinstance(error, str) else "failed",
    )


def _read_code_result(answer: Answer, result: dict[str, Any], index: int, part: Any) -> None:
    outcome = word(result.get("outcome")) or "OUTCOME_OK"
    output = text(result.get("output"))
    answer.respond(
        index,
        identity=None,
        name=_CODE_TOOL,
        content=output,
        shown=output,
        raw=part,
        error=None if outcome == "OUTCOME_OK" else outcome,
        at_provider=True,
    )
