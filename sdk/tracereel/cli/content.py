"""Content of a step as text: a conversation with role labels, or input and output."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tracereel.cli.steps import duration, joined
from tracereel.cli.terminal import Terminal, clean
from tracereel.content import (
    Content,
    ContentCut,
    Message,
    ModelCallContent,
    Part,
    ToolCallContent,
    ValueContent,
    answered,
    asked,
)

_ROLE_STYLES: Final = {"user": "cyan", "assistant": "green", "tool": "yellow"}
_INDENT: Final = "  "


def content_lines(
    content: Content, terminal: Terminal, *, everything: bool = False
) -> Iterator[str]:
    """Yield the lines for a step's content; `everything` includes the previous call's messages."""
    if isinstance(content, ModelCallContent):
        yield from _model_call(content, terminal, everything=everything)
    elif isinstance(content, ToolCallContent):
        yield from _tool_call(content, terminal)
    else:
        yield from _values(content, terminal)


def question_and_answer(content: Content) -> tuple[str, str]:
    """Return the last question and the last answer of a step; empty if it has none."""
    if isinstance(content, ModelCallContent):
        sides = [[each.model_dump() for each in side] for side in (content.input, content.output)]
        return asked(sides[0]) or "", answered(sides[1]) or ""
    if isinstance(content, ValueContent):
        return content.asked or "", content.answered or ""
    return "", ""


def _model_call(
    content: ModelCallContent, terminal: Terminal, *, everything: bool
) -> Iterator[str]:
    yield ""
    yield from terminal.rows(_facts(content))
    results = _results([*content.input, *content.output])
    shown = 0 if everything else content.earlier
    if shown:
        note = f"{shown} earlier messages, as in step {content.earlier_step} (--all shows them)"
        yield ""
        yield terminal.paint(terminal.shown(clean(note)), "dim")
    done: set[str | None] = {
        part.id
        for message in content.input[shown:]
        for part in message.parts
        if part.type == "tool_call" and part.id in results
    }
    for number, message in enumerate(content.input[shown:], start=shown):
        if content.cut is not None and content.cut.at == number:
            yield ""
            yield terminal.paint(f"({content.cut.removed} messages were removed here)", "dim")
        if not _is_answered(message, done):
            yield from _message(message, terminal, results)
    for message in content.output:
        yield from _message(message, terminal, {}, label="answer")


def _facts(content: ModelCallContent) -> Iterator[tuple[str, str]]:
    usage = content.usage
    counts = (
        ("input", usage.input),
        ("cached", usage.cache_read),
        ("cache written", usage.cache_write),
        ("output", usage.output),
        ("reasoning", usage.reasoning),
    )
    speed = content.tokens_per_second
    yield "model", joined([content.model or "", content.provider or ""])
    yield "tokens", joined(f"{number:,} {name}" for name, number in counts if number is not None)
    yield (
        "speed",
        joined(
            [
                f"first token {duration(content.first_token_ms)}" if content.first_token_ms else "",
                f"{speed:.1f} tokens/s" if speed else "",
            ]
        ),
    )
    yield "finish", content.finish_reason or ""
    yield "options", _json(content.parameters) if content.parameters else ""
    yield "tools", ", ".join(tool.name for tool in content.tools)


def _results(messages: Sequence[Message]) -> dict[str, Part]:
    """Return the results of tools by the id of their call."""
    return {
        part.id: part
        for message in messages
        for part in message.parts
        if part.type == "tool_result" and part.id
    }


def _is_answered(message: Message, answered: set[str | None]) -> bool:
    """Return whether a message has only results that are shown with their calls."""
    return bool(message.parts) and all(
        part.type == "tool_result" and part.id in answered for part in message.parts
    )


def _message(
    message: Message, terminal: Terminal, results: Mapping[str, Part], *, label: str = ""
) -> Iterator[str]:
    style = _ROLE_STYLES.get(message.role, "dim")
    words = joined([clean(message.role), label, clean(message.name or "")])
    yield ""
    yield terminal.paint(terminal.shown(words), style, "bold")
    for part in message.parts:
        yield from _part(part, terminal, results)


def _part(part: Part, terminal: Terminal, results: Mapping[str, Part]) -> Iterator[str]:
    if part.type == "tool_call":
        sign = "⚙" if terminal.unicode else "#"
        yield from _block(f"{sign} {part.name or 'tool'} {_json(part.value)}", terminal)
        if part.id is not None and part.id in results:
            yield from _block(_result(results[part.id]), terminal, indent=_INDENT * 2)
    elif part.type == "tool_result":
        yield from _block(joined([part.name or "", _result(part)]), terminal)
    elif part.type in ("text", "refusal"):
        yield from _block(part.text or "", terminal)
    elif part.type == "thinking":
        said = part.text or "(hidden)"
        yield from _block(f"thinking: {said}", terminal, style="dim")
    else:
        yield from _block(f"[{_described(part)}]", terminal, style="dim")
    if part.cut is not None:
        yield from _block(_cut(part.cut, "characters"), terminal, style="dim")


def _result(part: Part) -> str:
    arrow = "failed: " if part.is_error else "→ "
    said = part.value if isinstance(part.value, str) else _json(part.value)
    return f"{arrow}{said}"


def _described(part: Part) -> str:
    size = f"{part.size:,} bytes" if part.size is not None else ""
    said = part.text or ("" if part.value is None else _json(part.value))
    return joined([part.type, part.name or "", part.media_type or "", size, part.uri or "", said])


def _tool_call(content: ToolCallContent, terminal: Terminal) -> Iterator[str]:
    yield from _labelled("arguments", content.arguments, terminal)
    yield from _labelled("result", content.result, terminal)
    yield from _note(content.cut, terminal)


def _values(content: ValueContent, terminal: Terminal) -> Iterator[str]:
    yield from _labelled("asked", content.asked, terminal)
    yield from _labelled("answered", content.answered, terminal)
    if content.input != content.asked:
        yield from _labelled("input", content.input, terminal)
    if content.output != content.answered:
        yield from _labelled("output", content.output, terminal)
    yield from _note(content.cut, terminal)


def _note(cut: ContentCut | None, terminal: Terminal) -> Iterator[str]:
    if cut is not None:
        yield terminal.paint(_cut(cut, "characters"), "dim")


def _cut(cut: ContentCut, unit: str) -> str:
    return f"({cut.removed:,} of {cut.length:,} {unit} were removed)"


def _labelled(label: str, value: Any, terminal: Terminal) -> Iterator[str]:
    if value is None:
        return
    yield ""
    yield terminal.paint(label, "bold")
    yield from _block(value if isinstance(value, str) else _json(value, indent=2), terminal)


def _block(
    text: str, terminal: Terminal, *, style: str = "", indent: str = _INDENT
) -> Iterator[str]:
    """Yield the lines of a text, indented and without control characters."""
    for line in text.splitlines():
        room = line[: len(line) - len(line.lstrip(" "))]
        shown = terminal.shown(indent + room + clean(line))
        yield terminal.paint(shown, style) if style else shown


def _json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
