"""Stream adapter for LangChain: `astream_events`, or message chunks of `stream`."""

from typing import Any

import msgspec

from tracereel.providers.base import StreamEvent, ToolCall, Usage
from tracereel.providers.blocks import THOUGHTS
from tracereel.providers.citations import read_citation
from tracereel.providers.langchain import ROLES, read_message, role_of
from tracereel.providers.reading import as_data, count, get, items, mapping, table, text
from tracereel.providers.streams.base import StreamAdapter
from tracereel.providers.streams.chunks import MessageParts
from tracereel.providers.usage import usage_of


class LangChainStreamAdapter(StreamAdapter):
    """Adapter for events of chat models and tools; other events are ignored.

    A run may call several models, in sequence or in parallel. Messages are ordered by their start.
    The message of `on_chat_model_end` is the complete response and replaces the assembled chunks.
    """

    provider = "langchain"

    def _forget(self) -> None:
        self._messages: dict[str, Any] = {}
        self._done: set[str] = set()
        self._runs: dict[str, str] = {}
        self._blocks_before = 0

    def _take(self, chunk: Any, out: list[StreamEvent]) -> None:
        fields = table(chunk)
        kind = fields.get("event")
        if kind is None:
            self._take_bare(chunk, out)
            return
        run = text(fields.get("run_id")) or "run"
        if kind == "on_chat_model_stream":
            self._take_chunk(run, table(fields.get("data")).get("chunk"), chunk, out)
        elif kind == "on_chat_model_start":
            self._model = text(get(get(chunk, "metadata"), "ls_model_name")) or self._model
            self._start(out, chunk)
            self._parts(run)
        elif kind == "on_chat_model_end":
            self._take_end(run, get(get(chunk, "data"), "output"), chunk, out)
        elif kind in ("on_tool_end", "on_tool_error"):
            self._take_tool(run, chunk, failed=kind == "on_tool_error")
        elif not isinstance(kind, str):
            self._report("malformed_chunk", "an event's name is no text", chunk)

    def _take_bare(self, chunk: Any, out: list[StreamEvent]) -> None:
        """Read a message chunk without an event, perhaps with metadata."""
        place = ""
        if isinstance(chunk, tuple) and chunk:  # LangGraph: the message and its origin
            place = text(get(chunk[-1], "langgraph_checkpoint_ns")) or ""
            chunk = chunk[0]
        if get(chunk, "content") is None and get(chunk, "tool_call_chunks") is None:
            self._report("malformed_chunk", "neither an event nor a message", chunk)
            return
        role = ROLES.get(str(get(chunk, "type")).lower(), "assistant")
        if role == "assistant":
            run = self._bare_run(place, text(get(chunk, "id")), out)
            self._take_chunk(run, chunk, chunk, out)
            if self._parts(run).is_last:
                self._take_end(run, None, chunk, out)
        elif role == "tool":
            self._end_bare(out)
            self._messages[f"tool {len(self._messages)}"] = as_data(chunk)

    def _end_bare(self, out: list[StreamEvent]) -> None:
        """End open responses, because later messages follow them."""
        for run in self._runs.values():
            parts = self._messages.get(run)
            if isinstance(parts, MessageParts):
                self._take_end(run, None, None, out)

    def _bare_run(self, place: str, identity: str | None, out: list[StreamEvent]) -> str:
        """Return the response that a chunk without a run id belongs to.

        The framework's placeholder id may be replaced by the provider's id within a response.
        """
        run = self._runs.get(place)
        parts = self._messages.get(run or "")
        if run is not None and isinstance(parts, MessageParts):
            if parts.id == identity or _is_placeholder(parts.id) or _is_placeholder(identity):
                return run
            self._take_end(run, None, None, out)
        self._runs[place] = f"{place} {len(self._messages)}"
        return self._runs[place]

    def _parts(self, run: str) -> MessageParts:
        parts = self._messages.get(run)
        if not isinstance(parts, MessageParts):
            parts = self._messages[run] = MessageParts(self._room)
        return parts

    def _take_chunk(self, run: str, message: Any, raw: Any, out: list[StreamEvent]) -> None:
        if message is None or run in self._done:
            self._report("malformed_chunk", "an event has no chunk, or its answer is over", raw)
            return
        parts = self._parts(run)
        self._start(out, raw)
        parts.add(message)
        self._message_id = parts.id
        self._model = parts.model or self._model
        if parts.stop_word is not None:
            self._stop_word = parts.stop_word
        given = table(message)
        content = given.get("content")
        if isinstance(content, str):
            if content:
                self._block = self._blocks_before
                self._said(out, content, raw)
        else:
            for block in content or ():
                self._tell_block(block, raw, out)
        if given.get("tool_call_chunks"):
            self._token()

    def _tell_block(self, block: Any, raw: Any, out: list[StreamEvent]) -> None:
        if isinstance(block, str):
            if block:
                self._said(out, block, raw)
            return
        fields = table(block)
        index = count(fields.get("index"))
        if index is not None:
            self._block = self._blocks_before + index
        kind = fields.get("type")
        if kind in THOUGHTS:
            thought = get(block, "thinking", "reasoning", "text", "reasoning_content")
            if isinstance(thought, dict):
                thought = thought.get("text")
            for part in items(get(block, "summary")):
                thought = thought or get(part, "text")
            if isinstance(thought, str) and thought:
                self._thought(out, thought, raw)
        elif isinstance(content := fields.get("text"), str) and content:
            self._said(out, content, raw)
        for each in (*items(fields.get("citations")), *items(fields.get("annotations"))):
            self._cited(out, read_citation(as_data(each)), raw)

    def _take_end(self, run: str, output: Any, raw: Any, out: list[StreamEvent]) -> None:
        parts = self._parts(run)
        self._start(out, raw)
        message = _message_in(as_data(output))
        whole = parts.completed(message) if message is not None else parts.whole()
        self._messages[run] = whole
        self._done.add(run)
        answer = read_message(whole)
        self._message_id = answer.message_id
        self._model = answer.model or self._model
        self._stop_word = answer.stop_word or self._stop_word
        number = list(self._messages).index(run)
        highest = 0
        for piece in answer.pieces:
            highest = max(highest, piece.block_index + 1)
            if (call := piece.tool_call) is not None:
                self._block = self._blocks_before + piece.block_index
                if not call.id:
                    call = _identified(call, f"call_{number}_{piece.block_index}")
                self._called(out, call, raw)
        self._blocks_before += highest
        if answer.usage is not None:
            out.append(self._emit("usage", raw, usage=answer.usage))

    def _take_tool(self, run: str, event: Any, *, failed: bool) -> None:
        data = get(event, "data")
        output = as_data(get(data, "output"))
        if isinstance(output, dict) and isinstance(output.get("update"), dict):  # a Command
            output = next(iter(items(output["update"].get("messages"))), None)
        if isinstance(output, dict) and role_of(output) == "tool":
            self._messages[run] = output
            return
        shown = output
        if failed:
            shown = str(get(data, "error") or "failed")[:2_000]
        self._messages[run] = {
            "type": "tool",
            "name": text(get(event, "name")),
            "tool_call_id": text(get(data, "tool_call_id"))
            or text(get(mapping(as_data(get(data, "input"))), "tool_call_id", "id")),
            "content": shown,
            "status": "error" if failed else "success",
        }

    def _flush(self, out: list[StreamEvent]) -> None:
        if self._is_complete():
            self._end_bare(out)

    def _is_complete(self) -> bool:
        asked = [run for run, each in self._messages.items() if isinstance(each, MessageParts)]
        if not self._messages:
            return False
        return all(self._messages[run].is_complete for run in asked)

    def _usage(self) -> Usage | None:
        total: Usage | None = None
        for each in self._messages.values():
            message = each.whole() if isinstance(each, MessageParts) else each
            usage = usage_of(message)
            if usage is not None:
                total = usage if total is None else total + usage
        return total

    def response(self) -> list[dict[str, Any]]:
        return [
            each.whole() if isinstance(each, MessageParts) else each
            for each in self._messages.values()
        ]


def _message_in(output: Any) -> dict[str, Any] | None:
    """Return the message of an end event, directly or inside generations."""
    if not isinstance(output, dict):
        return None
    if role_of(output) is not None:
        return output
    for generation in items(output.get("generations")):
        for each in generation if isinstance(generation, list) else [generation]:
            if isinstance(message := mapping(each).get("message"), dict):
                return message
    return None


def _is_placeholder(identity: str | None) -> bool:
    return identity is None or identity.startswith(("lc_", "run-"))


def _identified(call: ToolCall, identity: str) -> ToolCall:
    return msgspec.structs.replace(call, id=identity)
