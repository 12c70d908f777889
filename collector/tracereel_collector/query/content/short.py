"""Texts of what went into steps and came out, for readers with little room."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tracereel.content import Content, Message, ModelCallContent, Part, ToolCallContent
from tracereel_collector.query.content.many import contents_of
from tracereel_collector.query.content.questions import Questions
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.run.steps import RunStep

MAX_TEXT = 2_000
"""Characters of a value or part."""


def short_texts(reader: RunReader, tenant: str, steps: Sequence[RunStep]) -> list[tuple[str, str]]:
    """Return the last message or value that went into each step, and what came out."""
    own = [step for step in steps if step.events]
    known = dict(zip(map(id, own), contents_of(reader, tenant, own), strict=True))
    places = {
        id(step): (step.span.trace_id, step.id) for step in steps if step.span and not step.events
    }
    spans = Questions(reader.store).contents(tenant, places.values())
    known |= {step: spans.get(place) for step, place in places.items()}
    return [_texts(known.get(id(step))) for step in steps]


def said(message: Message) -> str:
    """Return a message as text, with the calls and results in it."""
    return "\n".join(filter(None, map(_said, message.parts)))[:MAX_TEXT]


def value_text(value: Any) -> str | None:
    """Return a value as text."""
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text[:MAX_TEXT]


def _texts(content: Content | None) -> tuple[str, str]:
    if content is None:
        return "", ""
    if isinstance(content, ModelCallContent):
        return _listed(content.input[-1:]), _listed(content.output)
    if isinstance(content, ToolCallContent):
        return value_text(content.arguments) or "", value_text(content.result) or ""
    return (
        content.asked or value_text(content.input) or "",
        content.answered or value_text(content.output) or "",
    )


def _listed(messages: Iterable[Message]) -> str:
    return "\n".join(filter(None, map(said, messages)))


def _said(part: Part) -> str:
    if part.type == "tool_call":
        return f"{part.name or 'tool'}({value_text(part.value) or ''})"
    if part.value is not None:
        return value_text(part.value) or ""
    return part.text or part.uri or (f"[{part.media_type or part.type}]" if part.data else "")
