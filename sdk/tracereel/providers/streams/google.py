"""The chunks of Google's streamGenerateContent."""

from typing import Any

from tracereel.providers.answers import Answer
from tracereel.providers.base import Citation, StreamEvent, ToolCall, Usage
from tracereel.providers.citations import read_grounding
from tracereel.providers.failures import read_failure
from tracereel.providers.google import FINISH, SIGNATURE, SOURCES, read_part
from tracereel.providers.reading import as_data, get, text, word
from tracereel.providers.streams.base import StreamAdapter
from tracereel.providers.usage import read_usage


class _Candidate:
    """A candidate that is being put together: neighbouring texts of one kind are one part."""

    __slots__ = ("fields", "parts", "texts")

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.parts: list[dict[str, Any]] = []
        self.texts: list[list[str] | None] = []

    def add_text(self, content: str, *, is_thought: bool, part: Any) -> bool:
        """Adds a text; says whether it begins a new part."""
        signature = get(part, *SIGNATURE)
        is_new = (
            not self.parts
            or self.texts[-1] is None
            or (self.parts[-1].get("thought") is True) != is_thought
        )
        if is_new:
            self.parts.append({"text": "", "thought": True} if is_thought else {"text": ""})
            self.texts.append([])
        parts = self.texts[-1]
        assert parts is not None  # noqa: S101 - just made, or a text
        parts.append(content)
        if signature is not None:
            self.parts[-1][SIGNATURE[0]] = as_data(signature)
        return is_new

    def add(self, part: dict[str, Any]) -> None:
        self.parts.append(part)
        self.texts.append(None)

    def whole(self, index: int) -> dict[str, Any]:
        parts = [
            part if texts is None else {**part, "text": "".join(texts)}
            for part, texts in zip(self.parts, self.texts, strict=True)
        ]
        return {"index": index, **self.fields, "content": {"role": "model", "parts": parts}}


class GoogleStreamAdapter(StreamAdapter):
    """Chunks of streamGenerateContent: each is a response with the newest parts only."""

    provider = "google"

    def _forget(self) -> None:
        self._candidates: dict[int, _Candidate] = {}
        self._counts: Any = None
        self._feedback: Any = None
        self._sources: dict[int, tuple[Citation, ...]] = {}

    def _take(self, chunk: Any, out: list[StreamEvent]) -> None:
        candidates = get(chunk, "candidates")
        usage = get(chunk, "usageMetadata", "usage_metadata")
        feedback = get(chunk, "promptFeedback", "prompt_feedback")
        if candidates is None and usage is None and feedback is None:
            failure = read_failure(as_data(chunk))
            if failure is None:
                self._report("malformed_chunk", "a chunk has no candidates", chunk)
            else:
                out.extend(self._close("error", None, failure))
            return
        if self._model is None:
            self._model = text(get(chunk, "modelVersion", "model_version"))
        if self._message_id is None:
            self._message_id = text(get(chunk, "responseId", "response_id"))
        self._start(out, chunk)
        for position, candidate in enumerate(candidates or ()):
            self._take_candidate(candidate, position, chunk, out)
        if feedback is not None:
            self._feedback = as_data(feedback)
            blocked = word(get(self._feedback, "blockReason", "block_reason"))
            self._stop_word = self._stop_word or blocked
        if usage is not None:
            self._counts = as_data(usage)  # cumulative: the newest is the whole
            if self._stop_word is not None:
                self._counted(out, chunk)

    def _take_candidate(
        self, candidate: Any, position: int, chunk: Any, out: list[StreamEvent]
    ) -> None:
        index = get(candidate, "index")
        key = index if type(index) is int and index >= 0 else position
        whole = self._candidates.get(key)
        if whole is None:
            whole = self._candidates[key] = _Candidate()
        for part in get(get(candidate, "content"), "parts") or ():
            self._take_part(whole, part, chunk, out)
        for name in SOURCES:
            if (found := get(candidate, name)) is not None:
                whole.fields[name] = as_data(found)
        if (finish := word(get(candidate, *FINISH))) is not None:
            whole.fields[FINISH[0]] = self._stop_word = finish
        citations = read_grounding(whole.fields) if whole.fields else ()
        for citation in citations[len(self._sources.get(key, ())) :]:
            self._cited(out, citation, chunk)
        self._sources[key] = citations

    def _take_part(self, whole: _Candidate, part: Any, chunk: Any, out: list[StreamEvent]) -> None:
        content = get(part, "text")
        if isinstance(content, str):
            is_thought = get(part, "thought") is True
            if not content and get(part, *SIGNATURE) is None:
                return
            whole.add_text(content, is_thought=is_thought, part=part)
            self._block = len(whole.parts) - 1
            if content and is_thought:
                self._thought(out, content, chunk)
            elif content:
                self._said(out, content, chunk)
            return
        data = as_data(part)
        if not isinstance(data, dict):
            self._report("malformed_chunk", "a part is no object", chunk)
            return
        whole.add(data)
        self._block = len(whole.parts) - 1
        self._token()
        answer = Answer("assistant", self.provider)
        read_part(answer, data, self._block)
        for piece in answer.pieces:
            if (call := piece.tool_call) is not None:
                identity = call.id or f"call_0_{self._block}"
                told = ToolCall(
                    id=identity,
                    name=call.name,
                    arguments=call.arguments,
                    arguments_text=call.arguments_text,
                    runs_at_provider=call.runs_at_provider,
                )
                self._called(out, told, chunk)

    def _usage(self) -> Usage | None:
        return read_usage(self._counts)

    def response(self) -> dict[str, Any]:
        response: dict[str, Any] = {
            "candidates": [self._candidates[key].whole(key) for key in sorted(self._candidates)],
            "modelVersion": self._model,
            "responseId": self._message_id,
            "usageMetadata": self._counts,
        }
        if self._feedback is not None:
            response["promptFeedback"] = self._feedback
        return response
