"""Reader of OpenAI Responses API responses."""

from typing import Any, Final

from tracereel.providers.answers import Answer
from tracereel.providers.blocks import completed, read_block
from tracereel.providers.failures import read_failure
from tracereel.providers.reading import first_text, items, mapping, text, word

CALLS: Final = frozenset({"function_call", "custom_tool_call"})
"""Tools that the program runs; the provider runs the others."""


def read(response: dict[str, Any], provider: str = "openai") -> list[Answer]:
    """Read the answer of a response."""
    answer = Answer("assistant", provider)
    answer.stop_word = stop_word_of(response)
    answer.failure = read_failure(response)
    for index, item in enumerate(items(response.get("output"))):
        _read_item(answer, item, index)
    return completed([answer], response)


def stop_word_of(response: dict[str, Any]) -> str | None:
    """Return the reason of an incomplete response, else its status; `None` while in progress."""
    reason = word(mapping(response.get("incomplete_details")).get("reason"))
    status = word(response.get("status"))
    return reason or (None if status in ("in_progress", "queued") else status)


def _read_item(answer: Answer, item: Any, index: int) -> None:
    kind = text(mapping(item).get("type"))
    if kind == "message":
        for part in items(item.get("content")):
            read_block(answer, part, index)
    elif kind is not None and kind.endswith("_call") and kind not in CALLS:
        _read_builtin(answer, item, kind, index)
    else:
        read_block(answer, item, index)


def _read_builtin(answer: Answer, item: dict[str, Any], kind: str, index: int) -> None:
    """Add the request of a built-in tool, and its result if it is finished."""
    identity = first_text(item, "call_id", "id")
    name = text(item.get("name")) or kind.removesuffix("_call")
    arguments = item.get("arguments")
    answer.request(
        index,
        identity=identity,
        name=name,
        arguments=_described(item) if arguments is None else arguments,
        raw=item,
        at_provider=True,
    )
    status, error = item.get("status"), item.get("error")
    if status in ("completed", "failed", "incomplete") or item.get("output") is not None or error:
        names = ("output", "results", "outputs")
        content = next((item[each] for each in names if item.get(each)), None)
        failed = (error if isinstance(error, str) else "failed") or "failed"
        answer.respond(
            index,
            identity=identity,
            name=name,
            content=content,
            shown=text(content),
            raw=item,
            error=failed if status == "failed" or error else None,
            at_provider=True,
        )


def _described(item: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a built-in tool: its action, queries or code."""
    action = mapping(item.get("action"))
    names = ("queries", "code", "operation")
    return {**action, **{each: item[each] for each in names if item.get(each) is not None}}
