"""Stream adapter for OpenAI Responses API events."""

from typing import Any, Final

from tracereel.providers.answers import Answer
from tracereel.providers.base import Usage
from tracereel.providers.blocks import read_block
from tracereel.providers.citations import read_citation
from tracereel.providers.failures import read_failure
from tracereel.providers.openai_responses import CALLS, stop_word_of
from tracereel.providers.reading import as_data, count, get, items, mapping, table, text
from tracereel.providers.streams.base import StreamAdapter
from tracereel.providers.usage import usage_of

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_STATES: Final = _ENDS | {"response.created", "response.in_progress", "response.queued"}
_TEXT: Final = "response.output_text.delta"
_DELTAS: Final = {
    _TEXT: ("content", "text"),
    "response.refusal.delta": ("content", "refusal"),
    "response.reasoning_text.delta": ("content", "text"),
    "response.reasoning_summary_text.delta": ("summary", "text"),
    "response.function_call_arguments.delta": ("", "arguments"),
    "response.custom_tool_call_input.delta": ("", "input"),
    "response.mcp_call_arguments.delta": ("", "arguments"),
}
"""Event → location of its text in the item: list of parts (or the item itself), and field."""
_PART_TYPES: Final = {
    ("message", "content", "text"): "output_text",
    ("message", "content", "refusal"): "refusal",
    ("reasoning", "content", "text"): "reasoning_text",
    ("reasoning", "summary", "text"): "summary_text",
}
_MAX_PARTS: Final = 1_000


class ResponsesStreamAdapter(StreamAdapter):
    """Adapter for events of the Responses API; kinds that only repeat deltas are ignored."""

    def _forget(self) -> None:
        self._response: dict[str, Any] | None = None
        """The provider's response so far; `None` before the first event."""
        self._items: dict[int, dict[str, Any]] = {}
        self._growing: dict[tuple[int, str, int, str], list[str]] = {}
        self._annotations: dict[tuple[int, int], list[Any]] = {}

    def _take(self, chunk: Any) -> None:
        kind = get(chunk, "type")
        if isinstance(kind, str) and kind.startswith("response."):
            if self._response is None:
                self._response = {}
            if kind in _STATES:
                self._response = mapping(as_data(get(chunk, "response"))) or self._response
                self._message_id = text(self._response.get("id")) or self._message_id
                self._model = text(self._response.get("model")) or self._model
            self._start()
            self._take_event(kind, chunk)
        elif (failure := read_failure(as_data(chunk))) is not None:
            self._close("error", failure)
        elif kind is None:
            self._report("a chunk has neither choices nor a type")

    def _take_event(self, kind: str, event: Any) -> None:
        fields = table(event)
        number = count(fields.get("output_index"))
        self._block = self._block if number is None else number
        if kind in _DELTAS:
            self._take_delta(kind, number, fields)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._take_item(kind, number, as_data(fields.get("item")))
        elif kind == "response.output_text.annotation.added":
            raw, number = as_data(fields.get("annotation")), number or 0
            part = count(fields.get("content_index")) or 0
            so_far = "".join(self._growing.get((number, "content", part, "text"), ()))
            citation = read_citation(raw, so_far)
            if citation is not None:
                self._annotations.setdefault((number, part), []).append(raw)
            self._emit_citation(citation)
        elif kind in _ENDS and self._response is not None:
            if (usage := self._usage()) is not None:
                self._emit("usage", usage=usage)
            self._stop_word = stop_word_of(self._response)
            self._close(None, read_failure(self._response))

    def _take_delta(self, kind: str, number: int | None, fields: Any) -> None:
        delta = fields.get("delta")
        if number is None or not isinstance(delta, str):
            self._report("a delta belongs to no item or has no text")
            return
        name, field = _DELTAS[kind]
        part = count(get(fields, "content_index", "summary_index")) or 0
        if number not in self._items:
            item = "reasoning" if "reasoning" in kind else "message"
            self._items[number] = {"type": item if name else "function_call"}
        self._room.keep(self._growing.setdefault((number, name, part, field), []), delta)
        if kind == _TEXT and delta:
            self._emit_text(delta)
        elif "reasoning" in kind and delta:
            self._emit_reasoning(delta)
        elif not name or field == "refusal":
            self._token()

    def _take_item(self, kind: str, number: int | None, item: Any) -> None:
        if number is None or not isinstance(item, dict):
            self._report("an item has no number or no content")
            return
        self._items[number] = item
        if not kind.endswith(".done"):
            return
        # The complete item has arrived, so its deltas are no longer needed.
        for key in [key for key in self._growing if key[0] == number]:
            del self._growing[key]
        if item.get("type") in CALLS:
            answer = Answer("assistant", self.provider)
            read_block(answer, item, number)
            self._emit_calls(answer)

    def _usage(self) -> Usage | None:
        return usage_of(self._response)

    def response(self) -> dict[str, Any]:
        """Return the provider's final response, or the one assembled from deltas."""
        given = self._response or {}
        if items(given.get("output")) or not self._items:
            return {"object": "response", **given}
        output = [self._item(number) for number in sorted(self._items)]
        return {"object": "response", **given, "output": output}

    def _item(self, number: int) -> dict[str, Any]:
        item = dict(self._items[number])
        for (owner, name, part, field), deltas in sorted(self._growing.items()):
            if owner != number:
                continue
            if not name:
                item[field] = "".join(deltas)
                continue
            parts = [dict(each) for each in items(item.get(name)) if isinstance(each, dict)]
            kind = _PART_TYPES.get((str(item.get("type")), name, field), "text")
            while len(parts) <= part and len(parts) < _MAX_PARTS:
                parts.append({"type": kind})
            if part < len(parts):
                parts[part][field] = "".join(deltas)
                if field == "refusal":
                    parts[part]["type"] = "refusal"
                elif (number, part) in self._annotations:
                    parts[part]["annotations"] = self._annotations[number, part]
            item[name] = parts
        return item
