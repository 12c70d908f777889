"""Normalizer of complete results: a graph's state or one provider's response."""

from collections.abc import Sequence
from typing import Any, Final

from tracereel.providers import shapes
from tracereel.providers.answers import Answer
from tracereel.providers.base import Failure, Normalized, Problem, StopReason
from tracereel.providers.errors import UnknownProviderError
from tracereel.providers.failures import failure_of
from tracereel.providers.langchain import read_message
from tracereel.providers.names import PROVIDERS, provider_named
from tracereel.providers.reading import as_data, fields_text, get, text
from tracereel.providers.tools import ToolExecution, read_execution
from tracereel.providers.turn import ModelTurn

_EXECUTIONS: Final = ("toolExecutions", "tool_executions")
_USED_MODEL: Final = ("usedModel", "used_model")


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
        self._provider = None
        if provider is not None:
            self._provider = provider_named(provider)
            if self._provider is None:
                raise UnknownProviderError(provider, PROVIDERS)
        self._model = model
        self._session_id = session_id
        self._keep_raw = keep_raw

    def normalize(
        self, result: Any, *, user_messages: bool = False, whole_turn: bool = False
    ) -> Normalized:
        """Normalize a state (`messages`, `tool_executions`, `used_model`), messages, or a response.

        User messages are numbered but omitted by default; `user_messages` includes them.
        `whole_turn` also includes them, and adds `session_start` and `complete` events.
        """
        return self._tell(result, user_messages=user_messages, whole_turn=whole_turn)

    def normalize_data(self, answer: dict[str, Any]) -> Normalized:
        """Normalize one response of decoded JSON, without copying it."""
        return self._tell(answer, is_data=True)

    def normalize_stream(
        self,
        response: Any,
        *,
        stop: StopReason | None = None,
        failure: Failure | None = None,
        problems: Sequence[Problem] = (),
    ) -> Normalized:
        """Normalize a response assembled from a stream."""
        return self._tell(response, stop=stop, failure=failure, problems=problems)

    def _tell(
        self,
        result: Any,
        *,
        user_messages: bool = False,
        whole_turn: bool = False,
        stop: StopReason | None = None,
        failure: Failure | None = None,
        problems: Sequence[Problem] = (),
        is_data: bool = False,
    ) -> Normalized:
        messages = None if is_data else shapes.messages_of(result)
        executions: list[ToolExecution] = []
        used_model = self._model
        state: Any = None
        if messages is None:
            answers = self._read_response(result, is_data=is_data)
        else:
            state = result if not isinstance(result, (list, tuple)) else None
            answers = [self._read_message(each) for each in messages]
            executions = _executions(state)
            used_model = text(get(state, *_USED_MODEL)) or used_model
        if stop is not None or failure is not None:
            _force(answers, stop, failure, self._provider or "langchain")
        turn = ModelTurn(
            session_id=self._session_id or (_session_of(state) if state is not None else None),
            default_model=used_model,
            provider=self._provider,
            keep_raw=self._keep_raw,
            user_messages=user_messages or whole_turn,
            executions=executions,
        )
        turn.report(problems)
        if whole_turn:
            turn.open()
        turn.tell(answers)
        if state is not None:
            turn.tell_waits(as_data(get(state, "approvals")), as_data(get(state, "__interrupt__")))
        if whole_turn:
            turn.close()
        return turn.result()

    def _read_response(self, result: Any, *, is_data: bool) -> list[Answer]:
        provider = self._provider
        if isinstance(result, BaseException):
            failure = failure_of(result)
            return [Answer("assistant", provider or "langchain", failure=failure)]
        data = result if is_data else as_data(result)
        read = shapes.reader_of(data, provider)
        if read is None:
            answer = Answer("assistant", provider or "langchain")
            answer.report("malformed_message", "the result has no known shape", None, data)
            return [answer]
        try:
            return read(data)
        except Exception as raised:  # noqa: BLE001 - a malformed response is reported, never fatal
            return [_unreadable(raised, data, provider)]

    def _read_message(self, message: Any) -> Answer:
        # `langchain` is only the carrier; each message names its provider.
        provider = None if self._provider == "langchain" else self._provider
        try:
            return read_message(as_data(message), provider)
        except Exception as raised:  # noqa: BLE001 - one bad message must not affect the rest
            return _unreadable(raised, None, self._provider)


def _unreadable(raised: Exception, raw: Any, provider: str | None) -> Answer:
    answer = Answer("system", provider or "langchain")
    message = f"{type(raised).__name__}: {fields_text(raised)}"
    answer.report("malformed_message", message, None, raw)
    return answer


def _executions(state: Any) -> list[ToolExecution]:
    given = get(state, *_EXECUTIONS)
    if not isinstance(given, (list, tuple)):
        return []
    return [read_execution(each, position) for position, each in enumerate(given)]


def _session_of(state: Any) -> str | None:
    found = get(state, "session_id", "sessionId") or get(
        get(state, "context"), "session_id", "sessionId"
    )
    return text(found)


def _force(
    answers: list[Answer], stop: StopReason | None, failure: Failure | None, provider: str
) -> None:
    """Set the stop reason and failure of the stream on the last answer."""
    spoken = [answer for answer in answers if answer.role == "assistant"]
    if not spoken:
        spoken = [Answer("assistant", provider)]
        answers.append(spoken[0])
    spoken[-1].forced_stop = stop
    spoken[-1].failure = failure
