"""Normalizer of complete results: a graph's state or one provider's response."""

from collections.abc import Sequence
from typing import Any, Final

from tracereel.providers import anthropic, google, openai, openai_responses
from tracereel.providers.adapters import ProviderAdapter
from tracereel.providers.answers import Answer
from tracereel.providers.base import Failure, Normalized, Problem, StopReason
from tracereel.providers.failures import failure_of
from tracereel.providers.langchain import read_message, role_of
from tracereel.providers.names import known_provider
from tracereel.providers.reading import as_data, fields_text, first_text, get, items, mapping
from tracereel.providers.tools import ToolExecution, read_execution
from tracereel.providers.turn import ModelTurn

_GOOGLE: Final = frozenset({"candidates", "promptFeedback", "prompt_feedback", "usageMetadata"})
"""Keys that only Google responses have."""
_ERRORS: Final = {
    "anthropic": anthropic.read,
    "azure_openai": openai.read,
    "google": google.read,
    "openai": openai.read,
}
"""Provider → reader of its error bodies."""


class BatchResultNormalizer:
    """Converts a finished result to canonical events; never raises because of its input.

    `provider` is needed if the data does not identify it (Azure's format is OpenAI's). `model` is
    the requested model; it is used if a response does not name its model.
    """

    def __init__(
        self,
        *,
        provider: str | None = None,
        model: str | None = None,
        session_id: str | None = None,
        keep_raw: bool = True,
    ) -> None:
        self._provider = None if provider is None else known_provider(provider)
        # `langchain` is only the carrier; each message names its provider.
        self._message_provider = None if self._provider == "langchain" else self._provider
        self._model = model
        self._session_id = session_id
        self._keep_raw = keep_raw

    def normalize(
        self,
        result: Any,
        adapter: ProviderAdapter | None = None,
        *,
        user_messages: bool = False,
        whole_turn: bool = False,
    ) -> Normalized:
        """Normalize a state (`messages`, `tool_executions`, `used_model`), messages, or a response.

        An `adapter` converts the assistant's messages; by default each message names its provider.

        User messages are numbered but omitted by default; `user_messages` includes them.
        `whole_turn` also includes them, and adds `session_start` and `complete` events.
        """
        messages = _messages_of(result)
        state = None if messages is None or isinstance(result, (list, tuple)) else result
        turn = self._turn(state, user_messages=user_messages or whole_turn)
        if whole_turn:
            turn.open()
        answers = self._read(result, messages)
        if adapter is not None and messages is not None:
            self._adapt(answers, messages, adapter)
        turn.add_answers(answers)
        if state is not None:
            approvals, interrupts = get(state, "approvals"), get(state, "__interrupt__")
            turn.add_approvals(as_data(approvals), as_data(interrupts))
        if whole_turn:
            turn.close()
        return turn.result()

    def normalize_data(self, answer: dict[str, Any]) -> Normalized:
        """Normalize one response of decoded JSON, without copying it."""
        turn = self._turn()
        turn.add_answers(self._read_response(answer))
        return turn.result()

    def normalize_stream(
        self,
        response: Any,
        *,
        stop: StopReason | None = None,
        failure: Failure | None = None,
        problems: Sequence[Problem] = (),
    ) -> Normalized:
        """Normalize a response assembled from a stream."""
        answers = self._read(response, _messages_of(response))
        if stop is not None or failure is not None:
            replies = [answer for answer in answers if answer.role == "assistant"]
            if not replies:
                replies = [Answer("assistant", self._provider or "langchain")]
                answers += replies
            replies[-1].forced_stop = stop
            replies[-1].failure = failure
        turn = self._turn()
        turn.problems.extend(problems)
        turn.add_answers(answers)
        return turn.result()

    def _turn(self, state: Any = None, *, user_messages: bool = False) -> ModelTurn:
        session = self._session_id
        if not session and state is not None:
            names = ("session_id", "sessionId")
            session = first_text(state, *names) or first_text(get(state, "context"), *names)
        return ModelTurn(
            session_id=session,
            default_model=first_text(state, "usedModel", "used_model") or self._model,
            provider=self._provider,
            keep_raw=self._keep_raw,
            user_messages=user_messages,
            executions=_executions(state),
        )

    def _read(self, result: Any, messages: list[Any] | None) -> list[Answer]:
        if messages is not None:
            return [self._read_message(each) for each in messages]
        if isinstance(result, BaseException):
            failure = failure_of(result)
            return [Answer("assistant", self._provider or "langchain", failure=failure)]
        return self._read_response(as_data(result))

    def _adapt(self, answers: list[Answer], messages: list[Any], adapter: ProviderAdapter) -> None:
        """Replace the events of assistant messages by an adapter's events."""
        for index, (answer, message) in enumerate(zip(answers, messages, strict=True)):
            if answer.role != "assistant":
                answer.provider = adapter.provider
                continue
            try:
                events = tuple(adapter.normalize_message(message, index))
            except Exception as raised:  # noqa: BLE001 - an adapter is code of the program
                answers[index] = self._unreadable("assistant", _reason(raised), None)
                continue
            answer.events = events
            answer.provider = events[-1].provider if events else adapter.provider
            answer.problems = [problem for event in events for problem in event.problems]

    def _read_message(self, message: Any) -> Answer:
        try:
            return read_message(as_data(message), self._message_provider)
        except Exception as raised:  # noqa: BLE001 - one bad message must not affect the rest
            return self._unreadable("system", _reason(raised), None)

    def _read_response(self, data: Any) -> list[Answer]:
        try:
            answers = self._read_shape(data) if isinstance(data, dict) else None
        except Exception as raised:  # noqa: BLE001 - a malformed response is reported, never fatal
            return [self._unreadable("system", _reason(raised), data)]
        if answers is None:
            return [self._unreadable("assistant", "the result has no known shape", data)]
        return answers

    def _read_shape(self, data: dict[str, Any]) -> list[Answer] | None:
        """Read a response by the format that its keys have; return `None` if it is unknown."""
        provider = self._provider
        if not _GOOGLE.isdisjoint(data):
            return google.read(data, provider or "google")
        if "choices" in data:
            return openai.read(data, provider or "openai")
        if data.get("object") == "response" or isinstance(data.get("output"), list):
            return openai_responses.read(data, provider or "openai")
        kind = data.get("type")
        if kind == "message" or (kind == "error" and isinstance(data.get("error"), dict)):
            return anthropic.read(data, provider or "anthropic")
        if role_of(data) is not None:
            return [read_message(data, self._message_provider)]
        if "generations" in data:
            return self._read_generations(data)
        if "error" in data:
            provider = provider if provider in _ERRORS else "openai"
            return _ERRORS[provider](data, provider)
        return None

    def _read_generations(self, result: dict[str, Any]) -> list[Answer]:
        """Read LangChain's LLMResult: lists of generations, each with a message."""
        answers: list[Answer] = []
        for group in items(result.get("generations")):
            for each in group if isinstance(group, list) else [group]:
                generation = mapping(each)
                message = generation.get("message")
                if message is None:
                    message = {"type": "ai", "content": generation.get("text")}
                answers.append(read_message(message, self._message_provider))
                answers[-1].candidate_index = len(answers) - 1
        return answers

    def _unreadable(self, role: str, message: str, raw: Any) -> Answer:
        answer = Answer(role, self._provider or "langchain")
        answer.report("malformed_message", message, None, raw)
        return answer


def _messages_of(result: Any) -> list[Any] | None:
    """Return the messages of a state or list, or `None` for a response."""
    if isinstance(result, (str, bytes, BaseException)):
        return None
    found = result if isinstance(result, (list, tuple)) else get(result, "messages")
    return list(found) if isinstance(found, (list, tuple)) else None


def _reason(raised: Exception) -> str:
    return f"{type(raised).__name__}: {fields_text(raised)}"


def _executions(state: Any) -> list[ToolExecution]:
    given = get(state, "toolExecutions", "tool_executions")
    if not isinstance(given, (list, tuple)):
        return []
    return [read_execution(each, position) for position, each in enumerate(given)]
