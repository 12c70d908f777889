"""Stream adapter for OpenAI chat completions and Responses API events."""

from typing import Any

from tracereel.providers.answers import Answer
from tracereel.providers.base import Usage
from tracereel.providers.citations import read_citation
from tracereel.providers.openai import read_call
from tracereel.providers.reading import as_data, count, get, table, text, word
from tracereel.providers.streams.openai_responses import ResponsesStreamAdapter
from tracereel.providers.usage import read_usage


class _StreamedToolCall:
    """Tool call that is being assembled."""

    __slots__ = ("arguments", "id", "is_emitted", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments: list[str] = []
        self.is_emitted = False

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


class OpenAIStreamAdapter(ResponsesStreamAdapter):
    """Adapter for chunks of chat completions, or events of the Responses API."""

    provider = "openai"

    def _forget(self) -> None:
        super()._forget()
        self._choices: dict[int, _Choice] = {}
        self._counts: Any = None

    def _take(self, chunk: Any) -> None:
        fields = table(chunk)
        choices = fields.get("choices")
        if choices is None:
            super()._take(chunk)
            return
        if self._message_id is None:
            # Azure's first chunk is about the prompt and names no model.
            self._message_id = text(fields.get("id"))
        if self._model is None:
            self._model = text(fields.get("model"))
        self._start()
        for choice in choices:
            self._take_choice(choice)
        if (usage := fields.get("usage")) is not None:
            # The latest count is the total: some servers repeat it with every chunk.
            self._counts = as_data(usage)
            self._emit("usage", usage=self._usage())

    def _take_choice(self, choice: Any) -> None:
        given = table(choice)
        index = given.get("index")
        key = index if type(index) is int and index >= 0 else 0
        whole = self._choices.get(key)
        if whole is None:
            whole = self._choices[key] = _Choice()
        if (given_delta := given.get("delta")) is not None:
            delta = table(given_delta)
            part = delta.get("reasoning_content") or delta.get("reasoning")
            if isinstance(part, str) and part:
                self._block = 0
                self._room.keep(whole.reasoning, part)
                self._emit_reasoning(part)
            if isinstance(part := delta.get("content"), str) and part:
                self._block = 1 if whole.reasoning else 0
                self._room.keep(whole.content, part)
                self._emit_text(part)
            if isinstance(part := delta.get("refusal"), str) and part:
                self._room.keep(whole.refusal, part)
                self._token()
            self._take_calls(whole, delta)
            for each in delta.get("annotations") or ():
                raw = as_data(each)
                whole.annotations.append(raw)
                self._emit_citation(read_citation(raw, "".join(whole.content)))
        if (filters := given.get("content_filter_results")) is not None:
            whole.filters = as_data(filters)
        finish = given.get("finish_reason")
        if finish is not None and (reason := word(finish)) is not None:
            whole.finish = self._stop_word = reason
            self._emit_choice(whole)

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

    def _emit_choice(self, whole: _Choice) -> None:
        for position, number in enumerate(sorted(whole.calls)):
            call = whole.calls[number]
            if not call.is_emitted and call.name:
                call.is_emitted = True
                answer = Answer("assistant", self.provider)
                read_call(answer, call.whole(), whole.blocks_before_calls() + position)
                self._emit_calls(answer)

    def _flush(self) -> None:
        if self._stop_word is not None:
            for whole in self._choices.values():
                self._emit_choice(whole)

    def _usage(self) -> Usage | None:
        return read_usage(self._counts) if self._response is None else super()._usage()

    def response(self) -> dict[str, Any]:
        """Return the chat completion or response so far."""
        if self._response is not None:
            return super().response()
        return {
            "id": self._message_id,
            "object": "chat.completion",
            "model": self._model,
            "choices": [self._choices[index].whole(index) for index in sorted(self._choices)],
            "usage": self._counts,
        }


class AzureOpenAIStreamAdapter(OpenAIStreamAdapter):
    """Adapter for Azure deployments; their first chunk may have only prompt filter results."""

    provider = "azure_openai"
