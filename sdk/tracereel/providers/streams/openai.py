"""Stream adapter for OpenAI chat completions and Responses API events."""

from typing import Any, Final

import msgspec

from tracereel.providers.base import StreamEvent, ToolCall, Usage
from tracereel.providers.citations import read_citation
from tracereel.providers.failures import read_failure
from tracereel.providers.reading import as_data, count, get, json_object, table, text, word
from tracereel.providers.streams.base import StreamAdapter
from tracereel.providers.streams.openai_responses import ResponseParts
from tracereel.providers.usage import read_usage


class _OpenAiDelta(msgspec.Struct):
    """Delta of a choice; it is more than text if another field is set."""

    content: str
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None
    function_call: Any = None
    annotations: Any = None

    @property
    def is_text(self) -> bool:
        others = self.refusal, self.tool_calls, self.function_call, self.annotations
        return others == (None, None, None, None) and not (self.reasoning_content or self.reasoning)


class _DeltaChoice(msgspec.Struct):
    """Choice of a chunk."""

    index: int
    delta: _OpenAiDelta
    finish_reason: Any = None
    content_filter_results: Any = None


class _OpenAiDeltaChunk(msgspec.Struct):
    """The most frequent kind of chunk."""

    choices: tuple[_DeltaChoice]
    usage: Any = None


_read_delta: Final = msgspec.json.Decoder(_OpenAiDeltaChunk).decode


class _StreamedToolCall:
    """Tool call that is being assembled."""

    __slots__ = ("arguments", "id", "is_told", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments: list[str] = []
        self.is_told = False

    def whole(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


class _Choice:
    """Choice that is being assembled."""

    __slots__ = ("annotations", "calls", "content", "filters", "finish", "reasoning", "refusal")

    def __init__(self) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.annotations: list[Any] = []
        self.calls: dict[int, _StreamedToolCall] = {}
        self.finish: str | None = None
        self.filters: Any = None

    def blocks_before_calls(self) -> int:
        return bool(self.reasoning) + bool(self.content)

    def whole(self, index: int) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(self.content) if self.content else None,
            "refusal": "".join(self.refusal) or None,
        }
        if self.reasoning:
            message["reasoning_content"] = "".join(self.reasoning)
        if self.annotations:
            message["annotations"] = self.annotations
        if self.calls:
            message["tool_calls"] = [self.calls[number].whole() for number in sorted(self.calls)]
        choice = {"index": index, "message": message, "finish_reason": self.finish}
        if self.filters is not None:
            choice["content_filter_results"] = self.filters
        return choice


class OpenAIStreamAdapter(StreamAdapter):
    """Adapter for chunks of chat completions, or events of the Responses API."""

    provider = "openai"

    def _forget(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self._counts: Any = None
        self._parts: ResponseParts | None = None

    def _take(self, chunk: Any, out: list[StreamEvent]) -> None:
        fields = table(chunk)
        choices = fields.get("choices")
        if choices is None:
            self._take_other(chunk, out)
            return
        if self._message_id is None:
            # Azure's first chunk is about the prompt and names no model.
            self._message_id = text(fields.get("id"))
        if self._model is None:
            self._model = text(fields.get("model"))
        self._start(out, chunk)
        for choice in choices:
            self._take_choice(choice, chunk, out)
        if (usage := fields.get("usage")) is not None:
            # The latest count is the total: some servers repeat it with every chunk.
            self._counts = as_data(usage)
            self._counted(out, chunk)

    def _take_text(self, data: bytes | str) -> bool:
        if self._parts is not None:
            if b'"response.output_text.delta"' not in data:
                return False
            grown = self._parts.text_of(data)
            if grown is None:
                return False
            self._block = self._parts.block_index
            self._piece(*grown)
            return True
        if self._message_id is None or self._model is None or b'"delta"' not in data:
            return False
        chunk = _read_delta(data)
        choice = chunk.choices[0]
        whole = self._choices.get(choice.index)
        if (
            whole is None
            or not whole.content
            or chunk.usage is not None
            or choice.finish_reason is not None
            or choice.content_filter_results is not None
            or not choice.delta.is_text
        ):
            return False
        self._block = 1 if whole.reasoning else 0
        if part := choice.delta.content:
            self._piece(whole.content, part)
        return True

    def _take_other(self, chunk: Any, out: list[StreamEvent]) -> None:
        kind = get(chunk, "type")
        if isinstance(kind, str) and kind.startswith("response."):
            if self._parts is None:
                self._parts = ResponseParts(self._room)
            self._take_response_event(kind, chunk, out)
        elif (failure := read_failure(as_data(chunk))) is not None:
            out.extend(self._close("error", None, failure))
        elif kind is None:
            self._report("malformed_chunk", "a chunk has neither choices nor a type", chunk)

    def _take_response_event(self, kind: str, chunk: Any, out: list[StreamEvent]) -> None:
        parts = self._parts
        assert parts is not None  # noqa: S101 - created by the caller
        told = parts.take(kind, chunk)
        self._model = parts.model or self._model
        self._message_id = parts.id or self._message_id
        self._start(out, chunk)
        self._block = parts.block_index
        if told.content:
            self._said(out, told.content, chunk)
        if told.reasoning:
            self._thought(out, told.reasoning, chunk)
        if told.is_token:
            self._token()
        if told.call is not None:
            self._called(out, told.call, chunk)
        if told.citation is not None:
            self._cited(out, told.citation, chunk)
        if told.problem is not None:
            self._report("malformed_chunk", told.problem, chunk)
        if told.is_end:
            if self._usage() is not None:
                self._counted(out, chunk)
            self._stop_word = parts.stop_word
            failed = self._stop_word == "failed"
            out.extend(self._close("error" if failed else None, self._stop_word, parts.failure))

    def _take_choice(self, choice: Any, chunk: Any, out: list[StreamEvent]) -> None:
        given = table(choice)
        index = given.get("index")
        key = index if type(index) is int and index >= 0 else 0
        whole = self._choices.get(key)
        if whole is None:
            whole = self._choices[key] = _Choice()
        if (told := given.get("delta")) is not None:
            delta = table(told)
            part = delta.get("reasoning_content") or delta.get("reasoning")
            if isinstance(part, str) and part:
                self._block = 0
                self._room.keep(whole.reasoning, part)
                self._thought(out, part, chunk)
            if isinstance(part := delta.get("content"), str) and part:
                self._block = 1 if whole.reasoning else 0
                self._room.keep(whole.content, part)
                self._said(out, part, chunk)
            if isinstance(part := delta.get("refusal"), str) and part:
                self._room.keep(whole.refusal, part)
                self._token()
            self._take_calls(whole, delta)
            for each in delta.get("annotations") or ():
                raw = as_data(each)
                whole.annotations.append(raw)
                self._cited(out, read_citation(raw, "".join(whole.content)), chunk)
        if (filters := given.get("content_filter_results")) is not None:
            whole.filters = as_data(filters)
        finish = given.get("finish_reason")
        if finish is not None and (said := word(finish)) is not None:
            whole.finish = self._stop_word = said
            self._tell_calls(whole, chunk, out)

    def _take_calls(self, whole: _Choice, delta: Any) -> None:
        calls = delta.get("tool_calls")
        if calls is None:
            old = delta.get("function_call")
            if old is None:
                return
            calls = [{"index": 0, "function": old}]
        self._token()
        for position, each in enumerate(calls):
            number = count(get(each, "index"))
            if number is None:  # servers that send whole calls omit the index
                number = (
                    len(whole.calls) if get(each, "id") else max(len(whole.calls) - 1, position)
                )
            call = whole.calls.get(number)
            if call is None:
                call = whole.calls[number] = _StreamedToolCall()
            self._block = whole.blocks_before_calls() + number
            function = get(each, "function", "custom")
            call.id = call.id or text(get(each, "id"))
            if isinstance(part := get(function, "name"), str):
                call.name += part
            if isinstance(part := get(function, "arguments", "input"), str) and part:
                self._room.keep(call.arguments, part)

    def _tell_calls(self, whole: _Choice, raw: Any, out: list[StreamEvent]) -> None:
        for position, number in enumerate(sorted(whole.calls)):
            call = whole.calls[number]
            if call.is_told or not call.name:
                continue
            call.is_told = True
            self._block = whole.blocks_before_calls() + position
            arguments, kept = json_object("".join(call.arguments))
            told = ToolCall(
                id=call.id or f"call_0_{self._block}",
                name=call.name,
                arguments=arguments,
                arguments_text=kept,
            )
            self._called(out, told, raw)

    def _flush(self, out: list[StreamEvent]) -> None:
        if self._stop_word is not None:
            for whole in self._choices.values():
                self._tell_calls(whole, None, out)

    def _usage(self) -> Usage | None:
        return self._parts.usage() if self._parts is not None else read_usage(self._counts)

    def response(self) -> dict[str, Any]:
        if self._parts is not None:
            return self._parts.whole()
        return {
            "id": self._message_id,
            "object": "chat.completion",
            "model": self._model,
            "choices": [self._choices[index].whole(index) for index in sorted(self._choices)],
            "usage": self._counts,
        }
