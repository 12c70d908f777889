"""Stream adapter for LangChain: `astream_events`, or message chunks of `stream`."""

from typing import Any

from tracereel.providers.base import Usage, sum_known
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

    def _take(self, chunk: Any) -> None:
        fields = table(chunk)
        kind = fields.get("event")
        if kind is None:
            self._take_bare(chunk)
            return
        run = text(fields.get("run_id")) or "run"
        if kind == "on_chat_model_stream":
            self._take_chunk(run, table(fields.get("data")).get("chunk"))
        elif kind == "on_chat_model_start":
            self._model = text(get(get(chunk, "metadata"), "ls_model_name")) or self._model
            self._start()
            self._parts(run)
        elif kind == "on_chat_model_end":
            self._take_end(run, get(get(chunk, "data"), "output"))
        elif kind in ("on_tool_end", "on_tool_error"):
            self._take_tool(run, chunk, failed=kind == "on_tool_error")
        elif not isinstance(kind, str):
            self._report("an event's name is no text")

    def _take_bare(self, chunk: Any) -> None:
        """Read a message chunk without an event, perhaps with metadata."""
        place = ""
        if isinstance(chunk, tuple) and chunk:  # LangGraph: the message and its origin
            place = text(get(chunk[-1], "langgraph_checkpoint_ns")) or ""
            self._raw = chunk = chunk[0]
        if get(chunk, "content") is None and get(chunk, "tool_call_chunks") is None:
            self._report("neither an event nor a message")
            return
        role = ROLES.get(str(get(chunk, "type")).lower(), "assistant")
        if role == "assistant":
            run = self._bare_run(place, text(get(chunk, "id")))
            self._take_chunk(run, chunk)
            if self._parts(run).is_last:
                self._take_end(run, None)
        elif role == "tool":
            self._end_bare()
            self._messages[f"tool {len(self._messages)}"] = as_data(chunk)

    def _end_bare(self) -> None:
        """End open responses, because later messages follow them."""
        for run in self._runs.values():
            parts = self._messages.get(run)
            if isinstance(parts, MessageParts):
                self._take_end(run, None)

    def _bare_run(self, place: str, identity: str | None) -> str:
        """Return the response that a chunk without a run id belongs to.

        The framework's placeholder id may be replaced by the provider's id within a response.
        """
        run = self._runs.get(place)
        parts = self._messages.get(run or "")
        if run is not None and isinstance(parts, MessageParts):
            if parts.id == identity or _is_placeholder(parts.id) or _is_placeholder(identity):
                return run
            self._take_end(run, None)
        self._runs[place] = f"{place} {len(self._messages)}"
        return self._runs[place]

    def _parts(self, run: str) -> MessageParts:
        parts = self._messages.get(run)
        if not isinstance(parts, MessageParts):
            parts = self._messages[run] = MessageParts(self._room)
        return parts

    def _take_chunk(self, run: str, message: Any) -> None:
        if message is None or run in self._done:
            self._report("an event has no chunk, or its answer is over")
            return
        parts = self._parts(run)
        self._start()
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
                self._emit_text(content)
        else:
            for block in content or ():
                self._take_block(block)
        if given.get("tool_call_chunks"):
            self._token()

    def _take_block(self, block: Any) -> None:
        if isinstance(block, str):
            if block:
                self._emit_text(block)
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
                self._emit_reasoning(thought)
        elif isinstance(content := fields.get("text"), str) and content:
            self._emit_text(content)
        for each in (*items(fields.get("citations")), *items(fields.get("annotations"))):
            self._emit_citation(read_citation(as_data(each)))

    def _take_end(self, run: str, output: Any) -> None:
        parts = self._parts(run)
        self._start()
        message = _message_in(as_data(output))
        whole = parts.completed(message) if message is not None else parts.whole()
        self._messages[run] = whole
        self._done.add(run)
        answer = read_message(whole)
        self._message_id = answer.message_id
        self._model = answer.model or self._model
        self._stop_word = answer.stop_word or self._stop_word
        number = list(self._messages).index(run)
        self._emit_calls(answer, message=number, blocks_before=self._blocks_before)
        self._blocks_before += max((each.block_index + 1 for each in answer.pieces), default=0)
        if answer.usage is not None:
            self._emit("usage", usage=answer.usage)

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

    def _flush(self) -> None:
        if self._is_complete():
            self._end_bare()

    def _is_complete(self) -> bool:
        parts = [each for each in self._messages.values() if isinstance(each, MessageParts)]
        return bool(self._messages) and all(each.is_complete for each in parts)

    def _usage(self) -> Usage | None:
        total: Usage | None = None
        for message in self.response():
            total = sum_known(total, usage_of(message))
        return total

    def response(self) -> list[dict[str, Any]]:
        """Return the messages so far."""
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
