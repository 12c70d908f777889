"""The scope of a model call that somebody else's client makes: its closing event, from the wire."""

from typing import Any, Final

import msgspec

from tracereel import _emission, _recorder, _values
from tracereel._recorder import Recorder
from tracereel._scopes.arguments import Arguments
from tracereel._scopes.calls import LlmScope, LlmSpec
from tracereel._small_values import is_small_and_plain
from tracereel.integrations._dialects import Dialect
from tracereel.providers.base import Failure

_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_MAX_SPECS: Final = 512
_specs: Final[dict[tuple[str, str, str], LlmSpec]] = {}


class FailedAnswerError(Exception):
    """An answer that says it failed, or a stream that was cut; the client itself raised nothing."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def spec_of(model: str, provider: str, operation: str) -> LlmSpec:
    """What every call of a model has in common, made once."""
    key = (model, provider, operation)
    spec = _specs.get(key)
    if spec is None:
        if len(_specs) >= _MAX_SPECS:
            _specs.clear()
        spec = _specs[key] = LlmSpec(
            _values.text(model, _values.SHORT_LIMIT) or "unknown",
            provider=provider,
            operation=operation,
            temperature=None,
            max_tokens=None,
            ids={},
            inputs=None,
        )
    return spec


def copied(value: Any) -> Any:
    """Data that nobody else can change any more."""
    return msgspec.to_builtins(value) if is_small_and_plain(value) else _values.plain(value)


def bounded(value: Any) -> Any:
    """Data that is nobody else's already, as much of it as an event may have."""
    return value if is_small_and_plain(value) else _values.plain(value)


class ClientScope(LlmScope):
    """A call of a model by its provider's client."""

    __slots__ = ("before", "dialect", "extra", "was_streamed")

    def __init__(
        self, recorder: Recorder, spec: LlmSpec, body: dict[str, Any], dialect: Dialect
    ) -> None:
        self.dialect = dialect
        self.extra: dict[str, Any] = {}
        """Fields of the closing event that only the wire knows."""
        self.before: list[dict[str, Any]] = []
        """Events of the answer that wait for the closing one: they are written together."""
        self.was_streamed = False
        super().__init__(recorder, spec, Arguments((), 0, (), body))

    @property
    def start_ns(self) -> int:
        """When it began, in nanoseconds since 1970."""
        return self._start_ns

    @property
    def start_tick(self) -> int:
        """When it began, by the performance counter."""
        return self._tick

    def about(self, status: str, milliseconds: int) -> dict[str, Any]:
        event = super().about(status, milliseconds)
        if event["max_tokens"] is None:
            event["max_tokens"] = _values.count(self._setting(*_LIMITS))
        if event["temperature"] is None:
            event["temperature"] = _values.real(self._setting("temperature"))
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
        closes_run: bool = False,
        seconds: float | None = None,
    ) -> None:
        events, self.before = [*self.before, event], []
        recorder = self.recorder
        if recorder.closed:
            recorder = _recorder.active() or recorder
        _emission.record_all(
            events, self.execution, recorder, now_ns, closes_run=closes_run, seconds=seconds
        )

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any] | None:
        event = super().closing_failed(error, milliseconds)
        if event is not None and isinstance(error, FailedAnswerError):
            event["error_type"] = error.failure.type
            event["error_code"] = error.failure.code or event["error_code"]
        return event

    def _setting(self, *names: str) -> object:
        found = self.arguments.find(*names)
        if found is None:
            config = self.arguments.kwargs.get("generationConfig")
            if isinstance(config, dict):
                found = next((config[name] for name in names if name in config), None)
        return found

    def _messages(self) -> list[Any] | None:
        messages = self.dialect.messages(self.arguments.kwargs)
        if messages is None:
            return None
        data = copied(messages)
        return data if isinstance(data, list) else [data]
