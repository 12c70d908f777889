"""LangChain message that is being assembled from chunks."""

from typing import Any, Final

from tracereel.providers.base import Usage, sum_known
from tracereel.providers.reading import as_data, get, json_object, mapping, table, text
from tracereel.providers.streams.base import Room
from tracereel.providers.usage import read_usage

_TEXTS: Final = (
    *("text", "thinking", "reasoning", "signature", "partial_json", "args", "arguments"),
    "reasoning_content",
)
_LISTS: Final = ("citations", "annotations", "summary")


class MessageParts:
    """Merges chunks like LangChain: texts are appended, blocks and calls are matched by index."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.id: str | None = None
        self.model: str | None = None
        self.stop_word: str | None = None
        self.is_last = False
        self._blocks: dict[Any, dict[str, Any] | list[str]] = {}
        """Block key → the block, or parts of a text without a block, in order."""
        self._open_text: list[str] | None = None
        self._grown: dict[tuple[Any, str], list[str]] = {}
        """Block key and text field → parts to append to that field."""
        self._calls: dict[Any, dict[str, Any]] = {}
        self._metadata: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}
        self._usage: Usage | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the model has completed the message."""
        return self.is_last or self.stop_word is not None

    def add(self, chunk: Any) -> None:
        """Add one chunk."""
        fields = table(chunk)
        content = fields.get("content")
        if isinstance(content, str):
            self._add_text(content)
        else:
            for block in content or ():
                self._add_block(block if isinstance(block, dict) else as_data(block))
        for call in fields.get("tool_call_chunks") or ():
            self._add_call(mapping(as_data(call)))
        if (usage := fields.get("usage_metadata")) is not None:
            # Each chunk counts its own tokens.
            self._usage = sum_known(self._usage, read_usage(as_data(usage)))
        if metadata := fields.get("response_metadata"):
            self._metadata |= mapping(as_data(metadata))
            self.model = text(get(self._metadata, "model_name", "model")) or self.model
            self.stop_word = text(get(self._metadata, "stop_reason", "finish_reason"))
        if extra := fields.get("additional_kwargs"):
            for name, value in mapping(as_data(extra)).items():
                old = self._extra.get(name)
                grows = isinstance(old, str) and isinstance(value, str)
                self._extra[name] = old + value if grows else value
        self.is_last = self.is_last or fields.get("chunk_position") == "last"
        self.id = text(fields.get("id")) or self.id

    def _add_text(self, content: str) -> None:
        if not content:
            return
        if self._open_text is None:
            self._open_text = []
            self._blocks[len(self._blocks), "text"] = self._open_text
        self._room.keep(self._open_text, content)

    def _add_block(self, block: Any) -> None:
        if isinstance(block, str):
            self._add_text(block)
            return
        self._open_text = None
        if not isinstance(block, dict):
            self._blocks[len(self._blocks), "malformed"] = {"malformed": block}
            return
        index = block.get("index")
        key = index if isinstance(index, (int, str)) else (len(self._blocks), "whole")
        known = self._blocks.get(key)
        if not isinstance(known, dict):
            self._blocks[key] = mapping(as_data(block))
            return
        for name, value in block.items():
            old = known.get(name)
            if name in _TEXTS and isinstance(old, str) and isinstance(value, str):
                self._room.keep(self._grown.setdefault((key, name), []), value)
            elif name in _LISTS and isinstance(old, list) and isinstance(value, list):
                known[name] = [*old, *as_data(value)]
            elif old is None or old == "":
                known[name] = as_data(value)

    def _add_call(self, call: dict[str, Any]) -> None:
        index = call.get("index")
        key = index if isinstance(index, (int, str)) else (len(self._calls), "whole")
        known = self._calls.get(key)
        if known is None:
            known = self._calls[key] = {"name": "", "args": [], "id": None}
        if isinstance(part := call.get("name"), str):
            known["name"] += part
        if isinstance(part := call.get("args"), str):
            self._room.keep(known["args"], part)
        known["id"] = known["id"] or text(call.get("id"))

    def whole(self) -> dict[str, Any]:
        """Return the message so far."""
        calls = [_call(each) for each in self._calls.values()]
        content: Any = [self._whole_block(key) for key in self._blocks]
        if all(isinstance(each, str) for each in content):
            content = "".join(content)
        message = {
            "type": "ai",
            "id": self.id,
            "content": content,
            "tool_calls": [call for call in calls if "error" not in call],
            "invalid_tool_calls": [call for call in calls if "error" in call],
            "response_metadata": self._metadata,
            "additional_kwargs": self._extra,
        }
        if self._usage is not None:
            message["usage_metadata"] = _usage_metadata(self._usage)
        return message

    def _whole_block(self, key: Any) -> str | dict[str, Any]:
        block = self._blocks[key]
        if isinstance(block, list):
            return "".join(block)
        grown = {
            name: block[name] + "".join(parts)
            for (owner, name), parts in self._grown.items()
            if owner == key
        }
        return _block(block | grown)

    def completed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the framework's complete message, with missing fields from the chunks."""
        so_far = self.whole()
        done = {**message, "type": "ai"}
        for name in ("content", "tool_calls", "usage_metadata", "response_metadata", "id"):
            if not done.get(name) and so_far.get(name):
                done[name] = so_far[name]
        return done


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """Return a merged block without the fields used for merging."""
    whole = {name: value for name, value in block.items() if name != "index"}
    if isinstance(partial := whole.get("partial_json"), str) and not whole.get("input"):
        arguments, kept = json_object(partial)
        if kept is None:
            whole["input"] = arguments
            del whole["partial_json"]
    return whole


def _call(call: dict[str, Any]) -> dict[str, Any]:
    arguments, kept = json_object("".join(call["args"]))
    if kept is not None:
        return {**call, "args": kept, "error": "the arguments are no JSON object"}
    return {**call, "args": arguments}


def _usage_metadata(usage: Usage) -> dict[str, Any]:
    inside = {"cache_read": usage.cached_tokens, "cache_creation": usage.cache_creation_tokens}
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "input_token_details": {k: v for k, v in inside.items() if v is not None},
        "output_token_details": (
            {} if usage.reasoning_tokens is None else {"reasoning": usage.reasoning_tokens}
        ),
    }
