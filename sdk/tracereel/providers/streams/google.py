"""Stream adapter for Google streamGenerateContent."""

from typing import Any

from tracereel.providers.answers import Answer
from tracereel.providers.base import Citation, Usage
from tracereel.providers.citations import read_grounding
from tracereel.providers.failures import read_failure
from tracereel.providers.google import FINISH, SIGNATURE, SOURCES, read_part
from tracereel.providers.reading import as_data, get, table, text, word
from tracereel.providers.streams.base import Room, StreamAdapter
from tracereel.providers.usage import read_usage


class _Candidate:
    """Candidate that is being assembled; adjacent texts of the same kind become one part."""

    __slots__ = ("fields", "parts", "texts")

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.parts: list[dict[str, Any]] = []
        self.texts: list[list[str] | None] = []

    def add_text(self, content: str, *, is_thought: bool, signature: Any, room: Room) -> None:
        """Append a text to the last part, or to a new one of another kind."""
        is_new = (
            not self.parts
            or self.texts[-1] is None
            or (self.parts[-1].get("thought") is True) != is_thought
        )
        if is_new:
            self.parts.append({"text": "", "thought": True} if is_thought else {"text": ""})
            self.texts.append([])
        parts = self.texts[-1]
        assert parts is not None  # noqa: S101 - the last part is a text here
        room.keep(parts, content)
        if signature is not None:
            self.parts[-1][SIGNATURE[0]] = as_data(signature)

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
    """Adapter for streamGenerateContent; each chunk is a response with only the new parts."""

    provider = "google"

    def _forget(self) -> None:
        self._candidates: dict[int, _Candidate] = {}
        self._counts: Any = None
        self._feedback: Any = None
        self._sources: dict[int, tuple[Citation, ...]] = {}

    def _take(self, chunk: Any) -> None:
        fields = table(chunk)
        candidates = fields.get("candidates")
        usage = fields.get("usageMetadata") or fields.get("usage_metadata")
        feedback = fields.get("promptFeedback") or fields.get("prompt_feedback")
        if candidates is None and usage is None and feedback is None:
            failure = read_failure(as_data(chunk))
            if failure is None:
                self._report("a chunk has no candidates")
            else:
                self._close("error", failure)
            return
        if self._model is None:
            self._model = text(get(chunk, "modelVersion", "model_version"))
        if self._message_id is None:
            self._message_id = text(get(chunk, "responseId", "response_id"))
        self._start()
        for position, candidate in enumerate(candidates or ()):
            self._take_candidate(candidate, position)
        if feedback is not None:
            self._feedback = as_data(feedback)
            blocked = word(get(self._feedback, "blockReason", "block_reason"))
            self._stop_word = self._stop_word or blocked
        if usage is not None:
            self._counts = usage  # cumulative: the latest count is the total
            if self._stop_word is not None:
                self._emit("usage", usage=self._usage())

    def _take_candidate(self, candidate: Any, position: int) -> None:
        given = table(candidate)
        index = given.get("index")
        key = index if type(index) is int and index >= 0 else position
        whole = self._candidates.get(key)
        if whole is None:
            whole = self._candidates[key] = _Candidate()
        for part in table(given.get("content")).get("parts") or ():
            self._take_part(whole, part)
        for name in SOURCES:
            if (found := given.get(name)) is not None:
                whole.fields[name] = as_data(found)
        finish = word(given.get(FINISH[0]) or given.get(FINISH[1]))
        if finish is not None:
            whole.fields[FINISH[0]] = self._stop_word = finish
        if whole.fields:
            citations = read_grounding(whole.fields)
            for citation in citations[len(self._sources.get(key, ())) :]:
                self._emit_citation(citation)
            self._sources[key] = citations

    def _take_part(self, whole: _Candidate, part: Any) -> None:
        fields = table(part)
        content = fields.get("text")
        if isinstance(content, str):
            is_thought = fields.get("thought") is True
            signature = fields.get(SIGNATURE[0]) or fields.get(SIGNATURE[1])
            if not content and signature is None:
                return
            whole.add_text(content, is_thought=is_thought, signature=signature, room=self._room)
            self._block = len(whole.parts) - 1
            if content and is_thought:
                self._emit_reasoning(content)
            elif content:
                self._emit_text(content)
            return
        data = as_data(part)
        if not isinstance(data, dict):
            self._report("a part is no object")
            return
        whole.add(data)
        self._block = len(whole.parts) - 1
        self._token()
        answer = Answer("assistant", self.provider)
        read_part(answer, data, self._block)
        self._emit_calls(answer)

    def _usage(self) -> Usage | None:
        return read_usage(as_data(self._counts))

    def response(self) -> dict[str, Any]:
        """Return the response so far."""
        response: dict[str, Any] = {
            "candidates": [self._candidates[key].whole(key) for key in sorted(self._candidates)],
            "modelVersion": self._model,
            "responseId": self._message_id,
            "usageMetadata": as_data(self._counts),
        }
        if self._feedback is not None:
            response["promptFeedback"] = self._feedback
        return response
