"""Stream adapter for Anthropic Messages."""

from typing import Any, Final

from tracereel.providers.answers import Answer
from tracereel.providers.base import Usage
from tracereel.providers.blocks import REQUESTS, REQUESTS_AT_PROVIDER, read_block
from tracereel.providers.citations import read_citation
from tracereel.providers.failures import read_failure
from tracereel.providers.reading import (
    as_data,
    count,
    get,
    items,
    json_object,
    mapping,
    table,
    text,
    word,
)
from tracereel.providers.streams.base import StreamAdapter
from tracereel.providers.usage import read_usage

_FIELDS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    # Signatures are part of the block but not an event; only the provider verifies them.
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""Kind of delta → field of its text, in the delta and in the block."""


class _Block:
    """Content block that is being assembled."""

    __slots__ = ("citations", "start", "texts")

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.texts: dict[str, list[str]] = {name: [] for name in _FIELDS.values()}
        self.citations: list[Any] = []

    def whole(self) -> dict[str, Any]:
        block = dict(self.start)
        for name, parts in self.texts.items():
            if not parts:
                continue
            if name != "partial_json":
                block[name] = (text(block.get(name)) or "") + "".join(parts)
                continue
            block["input"], kept = json_object("".join(parts))
            if kept is not None:
                block["partial_json"] = kept
        if self.citations:
            block["citations"] = items(block.get("citations")) + self.citations
        return block


class AnthropicStreamAdapter(StreamAdapter):
    """Adapter for the raw events of a Messages stream; helper events are ignored."""

    provider = "anthropic"

    def _forget(self) -> None:
        self._message: dict[str, Any] = {}
        self._counts: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}
        self._is_stopped = False

    def _take(self, chunk: Any) -> None:
        fields = table(chunk)
        kind = fields.get("type")
        if kind == "content_block_delta":
            self._take_delta(fields)
        elif kind == "content_block_start":
            self._start()
            self._take_block(chunk)
        elif kind == "content_block_stop":
            index = get(chunk, "index")
            if type(index) is int and index in self._blocks:
                self._end_block(self._blocks[index].whole(), index)
        elif kind == "message_start":
            self._message = mapping(as_data(get(chunk, "message")))
            self._count(self._message.get("usage"))
            self._model = text(self._message.get("model"))
            self._message_id = text(self._message.get("id"))
            self._start()
        elif kind == "message_delta":
            delta = mapping(as_data(get(chunk, "delta")))
            self._message.update({k: v for k, v in delta.items() if v is not None})
            self._stop_word = word(self._message.get("stop_reason"))
            usage = as_data(get(chunk, "usage"))
            if isinstance(usage, dict):
                self._count(usage)
                self._emit("usage", usage=self._usage())
        elif kind == "message_stop":
            self._is_stopped = True
            self._close()
        elif kind == "error":
            self._close("error", read_failure(as_data(chunk)))
        elif not isinstance(kind, str):
            self._report("a chunk has no type")

    def _count(self, usage: Any) -> None:
        """Update token counts; they are cumulative, so the latest value replaces earlier ones."""
        counts = mapping(usage)
        self._counts.update({name: each for name, each in counts.items() if each is not None})

    def _take_block(self, chunk: Any) -> None:
        index = count(get(chunk, "index"))
        start = as_data(get(chunk, "content_block"))
        if index is None or not isinstance(start, dict):
            self._report("a block begins without number or content")
            return
        self._blocks[index] = _Block(start)
        self._block = index
        if start.get("type") == "text" and text(start.get("text")):
            self._emit_text(start["text"])
        elif start.get("type") == "thinking" and text(start.get("thinking")):
            self._emit_reasoning(start["thinking"])

    def _take_delta(self, fields: Any) -> None:
        index = fields.get("index")
        delta = table(fields.get("delta"))
        kind = delta.get("type")
        block = self._blocks.get(index) if type(index) is int else None
        if block is None:
            if count(index) is None:
                self._report("a delta belongs to no block")
                return
            self._start()
            block = self._blocks[index] = _Block(_missing_start(kind))
        self._block = index
        if kind == "citations_delta":
            raw = as_data(delta.get("citation"))
            citation = read_citation(raw)
            if citation is not None:
                block.citations.append(raw)
            self._emit_citation(citation)
            return
        name = _FIELDS.get(kind)
        if name is None:
            self._report("a delta is of no known kind")
            return
        if not isinstance(part := delta.get(name), str) or not part:
            return
        self._room.keep(block.texts[name], part)
        if name == "text":
            self._emit_text(part)
        elif name == "thinking":
            self._emit_reasoning(part)
        elif name == "partial_json":
            self._token()

    def _end_block(self, whole: dict[str, Any], index: int) -> None:
        """Emit the tool call of a complete block, if it is one."""
        if whole.get("type") in REQUESTS | REQUESTS_AT_PROVIDER:
            answer = Answer("assistant", self.provider)
            read_block(answer, whole, index)
            self._emit_calls(answer)

    def _flush(self) -> None:
        if self._blocks:
            return
        # Content that arrived complete in `message_start`, without deltas.
        for index, block in enumerate(items(self._message.get("content"))):
            self._block, self._raw = index, block
            if not isinstance(block, dict):
                continue
            if content := text(block.get("text")):
                self._emit_text(content)
            elif thought := text(block.get("thinking")):
                self._emit_reasoning(thought)
            else:
                self._end_block(block, index)

    def _is_complete(self) -> bool:
        return self._is_stopped or self._stop_word is not None

    def _usage(self) -> Usage | None:
        return read_usage(self._counts)

    def response(self) -> dict[str, Any]:
        """Return the message so far."""
        message = {"type": "message", "role": "assistant", **self._message}
        if self._blocks:
            message["content"] = [self._blocks[index].whole() for index in sorted(self._blocks)]
        message["usage"] = self._counts or None
        return message


def _missing_start(kind: Any) -> dict[str, Any]:
    kinds = {"thinking_delta": "thinking", "signature_delta": "thinking"}
    if kind == "input_json_delta":
        return {"type": "tool_use", "input": {}}
    return {"type": kinds.get(kind, "text"), kinds.get(kind, "text"): ""}
