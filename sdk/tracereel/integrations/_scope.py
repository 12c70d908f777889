"""Scope of a model call by a client library, and its closing event."""

from collections.abc import Mapping
from typing import Any, Final

from tracereel._core import envelope
from tracereel._core import recorder as _recorder
from tracereel._core.context import Execution
from tracereel._core.executions.arguments import Arguments
from tracereel._core.executions.calls import SENT, LlmScope, LlmSpec
from tracereel._core.recorder import Recorder
from tracereel._redact import values
from tracereel.integrations._dialects import Dialect
from tracereel.providers.base import Failure
from tracereel.providers.transient import without_thinking

_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_TEMPERATURE: Final = ("temperature",)
_CONFIG: Final = "generationConfig"
_NOT_OPTIONS: Final = frozenset(
    {"model", "stream", "messages", "system", "prompt", "input", "instructions", "tools"}
    | {"functions", "contents", "systemInstruction", "content", "requests", "instances"}
    | {"suffix", "questions", "base_url"}
)
"""Fields of requests that are content, or have a field of their own in the event."""
_MAX_SPECS: Final = 512
_specs: Final[dict[tuple[str, str, str], LlmSpec]] = {}


class FailedAnswerError(Exception):
    """A response reports a failure or a stream was cut, but the client raised nothing."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def spec_of(model: str, provider: str, operation: str) -> LlmSpec:
    """Return the cached spec of a model."""
    key = (model, provider, operation)
    spec = _specs.get(key)
    if spec is None:
        if len(_specs) >= _MAX_SPECS:
            _specs.clear()
        spec = _specs[key] = LlmSpec(
            values.text(model, values.SHORT_LIMIT) or "unknown",
            provider=provider,
            operation=operation,
            temperature=None,
            max_tokens=None,
            ids={},
            inputs=None,
        )
    return spec


class ClientScope(LlmScope):
    """Model call by a provider's client."""

    __slots__ = ("before", "dialect", "extra", "was_streamed")

    def __init__(
        self, recorder: Recorder, spec: LlmSpec, body: dict[str, Any], dialect: Dialect
    ) -> None:
        self.dialect = dialect
        self.extra: dict[str, Any] = {}
        """Fields of the closing event that come from the response."""
        self.before: list[dict[str, Any]] = []
        """Events of the response, written together with the closing event."""
        self.was_streamed = False
        super().__init__(recorder, spec, Arguments((), 0, (), body))

    @property
    def start_ns(self) -> int:
        """Start time in nanoseconds since 1970."""
        return self._start_ns

    @property
    def start_tick(self) -> int:
        """Start time by the performance counter."""
        return self._tick

    def about(self) -> dict[str, Any]:
        event = super().about()
        event["was_streamed"] = self.was_streamed
        if self.execution.retry_count:
            event["retry_count"] = self.execution.retry_count
        event.update(self.extra)
        return event

    def _emit(
        self,
        event: dict[str, Any],
        now_ns: int,
        *,
        closes_run: bool | None = False,
        seconds: float | None = None,
    ) -> None:
        events, self.before = [*self.before, event], []
        recorder = self.recorder
        if recorder.closed:
            recorder = _recorder.active() or recorder
        envelope.record_all(
            events,
            self.execution,
            recorder,
            now_ns,
            closes_run=closes_run,
            seconds=seconds,
            copied_by=self.recorder.privacy,
        )

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any] | None:
        event = super().closing_failed(error, milliseconds)
        if event is not None and isinstance(error, FailedAnswerError):
            event["error_type"] = error.failure.type
            event["error_code"] = error.failure.code or event["error_code"]
        return event

    def temperature(self) -> float | None:
        found = self._setting(_TEMPERATURE)
        return None if found is None else values.real(found)

    def max_tokens(self) -> int | None:
        found = self._setting(_LIMITS)
        return None if found is None else values.count(found)

    def _setting(self, names: tuple[str, ...]) -> object:
        body = self.arguments.kwargs
        if not body.keys().isdisjoint(names):
            for name in names:
                if (found := body.get(name)) is not None:
                    return found
        config = body.get(_CONFIG)
        if isinstance(config, dict):
            return next((config[name] for name in names if name in config), None)
        return None

    def _messages(self) -> Any:
        messages = messages_of(self.dialect, self.arguments.kwargs, self.recorder)
        return None if messages is None else self.recorder.content.messages(messages)

    def _parameters(self) -> dict[str, Any] | None:
        return options_of(self.arguments.kwargs)


def messages_of(dialect: Dialect, body: Mapping[str, Any], recorder: Recorder) -> Any:
    """Return the messages of a request, without reasoning unless it may be stored."""
    messages = dialect.messages(body)
    if isinstance(messages, (list, tuple)) and not recorder.config.store_thinking:
        return without_thinking(messages)
    return messages


def note_request(
    around: Execution, dialect: Dialect, body: Mapping[str, Any], recorder: Recorder
) -> None:
    """Add what a client sends to the call of the enclosing function."""
    around.notes[SENT] = lambda: messages_of(dialect, body, recorder)
    if (tools := body.get("tools") or body.get("functions")) is not None:
        around.notes["tool_definitions"] = recorder.content.listed(tools)
    if (options := options_of(body)) is not None:
        around.notes["request_parameters"] = options


def options_of(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options of a request."""
    given = {
        name: value
        for name, value in body.items()
        if name not in _NOT_OPTIONS and value is not None
    }
    if isinstance(config := given.pop(_CONFIG, None), dict):
        given = {**config, **given}
    return values.plain_dict(given) if given else None
