"""Stream adapter for Anthropic Messages."""

from typing import Any, Final

import msgspec

from tracereel.providers.base import StreamEvent, ToolCall, Usage
from tracereel.providers.blocks import REQUESTS, REQUESTS_AT_PROVIDER
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


class _AnthropicDelta(msgspec.Struct):
    """Text fields of a block delta."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""


class _AnthropicDeltaChunk(msgspec.Struct):
    """The most frequent kind of chunk."""

    type: str
    index: int
    delta: _AnthropicDelta


_read_delta: Final = msgspec.json.Decoder(_AnthropicDeltaChunk).decode


class _Block:
    """Content block that is being assembled."""

    __slots__ = ("citations", "json", "signature", "start", "text", "thinking")

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.signature: list[str] = []
        self.json: list[str] = []
        self.citations: list[Any] = []

    def whole(self) -> dict[str, Any]:
        block = dict(self.start)
        for name, parts in (
            ("text", self.text),
            ("thinking", self.thinking),
            ("signature", self.signature),
        ):
            if parts:
                block[name] = (text(block.get(name)) or "") + "".join(parts)
        if self.citations:
            given = block.get("citations")
            block["citations"] = [*(given if isinstance(given, list) else []), *self.citations]
        if self.json:
            arguments, kept = json_object("".join(self.json))
            block["input"] = arguments
            if kept is not None:
                block["partial_json"] = kept
        return block


class AnthropicStreamAdapter(StreamAdapter):
    """Adapter for the raw events of a Messages stream; helper events are ignored."""

    provider = "anthropic"

    def _forget(self) -> None:
        self._message: dict[str, Any] = {}
        self._counts: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}
        self._is_stopped = False

    def _take(self, chunk: Any, out: list[StreamEvent]) -> None:
        fields = table(chunk)
        kind = fields.get("type")
        if kind == "content_block_delta":
            self._take_delta(fields, chunk, out)
        elif kind == "content_block_start":
            self._start(out, chunk)
            self._take_block(chunk, out)
        elif kind == "content_block_stop":
            self._end_block(chunk, out)
        elif kind == "message_start":
            self._message = mapping(as_data(get(chunk, "message")))
            self._count(self._message.get("usage"))
            self._model = text(self._message.get("model"))
            self._message_id = text(self._message.get("id"))
            self._start(out, chunk)
        elif kind == "message_delta":
            delta = mapping(as_data(get(chunk, "delta")))
            self._message.update({k: v for k, v in delta.items() if v is not None})
            self._stop_word = word(self._message.get("stop_reason"))
            usage = as_data(get(chunk, "usage"))
            if isinstance(usage, dict):
                self._count(usage)
                self._counted(out, chunk)
        elif kind == "message_stop":
            self._is_stopped = True
            out.extend(self.finish())
        elif kind == "error":
            failure = read_failure(as_data(chunk))
            out.extend(self._close("error", None, failure))
        elif not isinstance(kind, str):
            self._report("malformed_chunk", "a chunk has no type", chunk)

    def _take_text(self, data: bytes | str) -> bool:
        if b'"content_block_delta"' not in data:
            return False
        chunk = _read_delta(data)
        block = self._blocks.get(chunk.index)
        if block is None or chunk.type != "content_block_delta":
            return False
        delta = chunk.delta
        kind = delta.type
        if kind == "text_delta":
            parts, part = block.text, delta.text
        elif kind == "input_json_delta":
            parts, part = block.json, delta.partial_json
        elif kind == "thinking_delta":
            parts, part = block.thinking, delta.thinking
        else:
            return False
        self._block = chunk.index
        if part:
            self._piece(parts, part)
        return True

    def _count(self, usage: Any) -> None:
        """Update token counts; they are cumulative, so the latest value replaces earlier ones."""
        said = mapping(usage)
        self._counts.update({name: each for name, each in said.items() if each is not None})

    def _take_block(self, chunk: Any, out: list[StreamEvent]) -> None:
        index = count(get(chunk, "index"))
        start = as_data(get(chunk, "content_block"))
        if index is None or not isinstance(start, dict):
            self._report("malformed_chunk", "a block begins without number or content", chunk)
            return
        self._blocks[index] = _Block(start)
        self._block = index
        if start.get("type") == "text" and text(start.get("text")):
            self._said(out, start["text"], chunk)
        elif start.get("type") == "thinking" and text(start.get("thinking")):
            self._thought(out, start["thinking"], chunk)

    def _take_delta(self, fields: Any, chunk: Any, out: list[StreamEvent]) -> None:
        index = fields.get("index")
        delta = table(fields.get("delta"))
        kind = delta.get("type")
        block = self._blocks.get(index) if type(index) is int else None
        if block is None:
            if count(index) is None:
                self._report("malformed_chunk", "a delta belongs to no block", chunk)
                return
            self._start(out, chunk)
            block = self._blocks[index] = _Block(_missing_start(kind))
        self._block = index
        if kind == "text_delta":
            if isinstance(part := delta.get("text"), str) and part:
                self._room.keep(block.text, part)
                self._said(out, part, chunk)
        elif kind == "thinking_delta":
            if isinstance(part := delta.get("thinking"), str) and part:
                self._room.keep(block.thinking, part)
                self._thought(out, part, chunk)
        elif kind == "input_json_delta":
            if isinstance(part := delta.get("partial_json"), str) and part:
                self._room.keep(block.json, part)
                self._token()
        elif kind == "citations_delta":
            raw = as_data(delta.get("citation"))
            citation = read_citation(raw)
            if citation is not None:
                block.citations.append(raw)
            self._cited(out, citation, chunk)
        elif kind == "signature_delta":
            # Signatures are part of the block but not an event; only the provider verifies them.
            if isinstance(part := delta.get("signature"), str):
                self._room.keep(block.signature, part)
        else:
            self._report("malformed_chunk", "a delta is of no known kind", chunk)

    def _end_block(self, chunk: Any, out: list[StreamEvent]) -> None:
        index = get(chunk, "index")
        block = self._blocks.get(index) if type(index) is int else None
        if block is None or block.start.get("type") not in REQUESTS | REQUESTS_AT_PROVIDER:
            return
        self._tell_call(block.whole(), index, chunk, out)

    def _tell_call(
        self, whole: dict[str, Any], index: int, raw: Any, out: list[StreamEvent]
    ) -> None:
        arguments, kept = json_object(whole.get("partial_json") or whole.get("input"))
        call = ToolCall(
            id=text(whole.get("id")) or f"call_0_{index}",
            name=text(whole.get("name")) or "",
            arguments=arguments,
            arguments_text=kept,
            runs_at_provider=whole.get("type") in REQUESTS_AT_PROVIDER,
        )
        self._block = index
        self._called(out, call, raw)

    def _flush(self, out: list[StreamEvent]) -> None:
        if self._blocks:
            return
        # Content that arrived complete in `message_start`, without deltas.
        for index, block in enumerate(items(self._message.get("content"))):
            self._block = index
            if not isinstance(block, dict):
                continue
            if content := text(block.get("text")):
                self._said(out, content, block)
            elif thought := text(block.get("thinking")):
                self._thought(out, thought, block)
            elif block.get("type") in REQUESTS | REQUESTS_AT_PROVIDER:
                self._tell_call(block, index, block, out)

    def _is_complete(self) -> bool:
        return self._is_stopped or self._stop_word is not None

    def _usage(self) -> Usage | None:
        return read_usage(self._counts)

    def response(self) -> dict[str, Any]:
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
