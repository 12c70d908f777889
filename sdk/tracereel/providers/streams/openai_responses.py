"""OpenAI Responses API response that is being assembled from stream events."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tracereel.providers.base import Citation, Failure, ToolCall, Usage
from tracereel.providers.citations import read_citation
from tracereel.providers.failures import read_failure
from tracereel.providers.openai_responses import CALLS, stop_word_of
from tracereel.providers.reading import (
    as_data,
    count,
    get,
    items,
    json_object,
    mapping,
    table,
    text,
)
from tracereel.providers.streams.room import Room
from tracereel.providers.usage import usage_of

ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_TEXT_DELTAS: Final = {
    "response.output_text.delta": ("content", "text"),
    "response.refusal.delta": ("content", "refusal"),
    "response.reasoning_text.delta": ("content", "text"),
    "response.reasoning_summary_text.delta": ("summary", "text"),
}
"""Event → location of its text in the item: list of parts, and field."""
_ARGUMENT_DELTAS: Final = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.mcp_call_arguments.delta": "arguments",
}


@dataclass(slots=True)
class Told:
    """Content of one stream event."""

    content: str | None = None
    reasoning: str | None = None
    call: ToolCall | None = None
    citation: Citation | None = None
    is_token: bool = False
    is_end: bool = False
    problem: str | None = None


_NOTHING: Final = Told()


class _TextDelta(msgspec.Struct):
    """The most frequent kind of event."""

    type: str
    output_index: int
    delta: str
    content_index: int = 0


_read_delta: Final = msgspec.json.Decoder(_TextDelta).decode


class ResponseParts:
    """Response that is being assembled."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.id: str | None = None
        self.model: str | None = None
        self.block_index = 0
        self.failure: Failure | None = None
        self._response: dict[str, Any] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._growing: dict[tuple[int, str, int, str], list[str]] = {}
        self._annotations: dict[tuple[int, int], list[Any]] = {}

    @property
    def stop_word(self) -> str | None:
        return stop_word_of(self._response)

    def take(self, kind: str, event: Any) -> Told:
        """Read an event; kinds that only repeat deltas are ignored."""
        place = _TEXT_DELTAS.get(kind)
        if place is not None:
            return self._grow(kind, event, place)
        if kind in _ARGUMENT_DELTAS:
            return self._grow(kind, event, ("", _ARGUMENT_DELTAS[kind]))
        if kind in ("response.output_item.added", "response.output_item.done"):
            return self._take_item(kind, event)
        if kind == "response.output_text.annotation.added":
            return self._take_annotation(event)
        if kind in ENDS or kind in ("response.created", "response.in_progress", "response.queued"):
            self._take_response(as_data(get(event, "response")))
            return Told(is_end=kind in ENDS)
        return _NOTHING

    def text_of(self, data: bytes | str) -> tuple[list[str], str] | None:
        """Return a text delta and the list to append it to, or `None`."""
        event = _read_delta(data)
        if event.type != "response.output_text.delta" or not event.delta:
            return None
        grown = self._growing.get((event.output_index, "content", event.content_index, "text"))
        if grown is None:
            return None
        self.block_index = event.output_index
        return grown, event.delta

    def _take_response(self, response: Any) -> None:
        self._response = mapping(response) or self._response
        self.id = text(self._response.get("id"))
        self.model = text(self._response.get("model"))
        self.failure = read_failure(self._response)

    def _number(self, event: Any) -> int | None:
        number = count(table(event).get("output_index"))
        if number is not None:
            self.block_index = number
        return number

    def _grow(self, kind: str, event: Any, place: tuple[str, str]) -> Told:
        fields = table(event)
        number, delta = self._number(fields), fields.get("delta")
        if number is None or not isinstance(delta, str):
            return Told(problem="a delta belongs to no item or has no text")
        part = fields.get("content_index")
        part = count(fields.get("summary_index") if part is None else part) or 0
        if number not in self._items:
            self._items[number] = _missing_item(kind)
        grown = self._growing.setdefault((number, place[0], part, place[1]), [])
        self._room.keep(grown, delta)
        if kind == "response.output_text.delta":
            return Told(content=delta)
        if "reasoning" in kind:
            return Told(reasoning=delta)
        return Told(is_token=True)

    def _take_item(self, kind: str, event: Any) -> Told:
        number, item = self._number(event), as_data(get(event, "item"))
        if number is None or not isinstance(item, dict):
            return Told(problem="an item has no number or no content")
        self._items[number] = item
        if not kind.endswith(".done"):
            return _NOTHING
        # The complete item has arrived, so its deltas are no longer needed.
        for key in [key for key in self._growing if key[0] == number]:
            del self._growing[key]
        if item.get("type") not in CALLS:
            return _NOTHING
        given = item.get("arguments")
        arguments, kept = json_object(item.get("input") if given is None else given)
        own = text(item.get("id"))
        identity = text(item.get("call_id")) or own or f"call_0_{number}"
        return Told(
            call=ToolCall(
                id=identity,
                name=text(item.get("name")) or "",
                arguments=arguments,
                arguments_text=kept,
                provider_id=own if own != identity else None,
            )
        )

    def _take_annotation(self, event: Any) -> Told:
        number, raw = self._number(event), as_data(get(event, "annotation"))
        part = count(get(event, "content_index")) or 0
        number = number or 0
        so_far = "".join(self._growing.get((number, "content", part, "text"), ()))
        citation = read_citation(raw, so_far)
        if citation is None:
            return Told(problem="a citation says nothing")
        self._annotations.setdefault((number, part), []).append(raw)
        return Told(citation=citation)

    def usage(self) -> Usage | None:
        return usage_of(self._response)

    def whole(self) -> dict[str, Any]:
        """Return the provider's final response, or the one assembled from deltas."""
        if items(self._response.get("output")) or not self._items:
            return {"object": "response", **self._response}
        output = [self._item(number) for number in sorted(self._items)]
        return {"object": "response", **self._response, "output": output}

    def _item(self, number: int) -> dict[str, Any]:
        item = dict(self._items[number])
        for (owner, name, part, field), deltas in sorted(self._growing.items()):
            if owner != number:
                continue
            if not name:
                item[field] = "".join(deltas)
                continue
            parts = [dict(each) for each in items(item.get(name)) if isinstance(each, dict)]
            while len(parts) <= part and len(parts) < 1_000:
                parts.append(
                    {"type": _PART_TYPES.get((str(item.get("type")), name, field), "text")}
                )
            if part < len(parts):
                parts[part][field] = "".join(deltas)
                if field == "refusal":
                    parts[part]["type"] = "refusal"
                elif (number, part) in self._annotations:
                    parts[part]["annotations"] = self._annotations[number, part]
            item[name] = parts
        return item


_PART_TYPES: Final = {
    ("message", "content", "text"): "output_text",
    ("message", "content", "refusal"): "refusal",
    ("reasoning", "content", "text"): "reasoning_text",
    ("reasoning", "summary", "text"): "summary_text",
}


def _missing_item(kind: str) -> dict[str, Any]:
    if "arguments" in kind or "input" in kind:
        return {"type": "function_call"}
    return {"type": "reasoning" if "reasoning" in kind else "message"}
