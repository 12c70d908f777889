"""The scope of a model call that somebody else's client makes: its closing event, from the wire."""

from typing import Any, Final

from tracereel import _emission, _recorder, _values, _written
from tracereel._recorder import Recorder
from tracereel._scopes.arguments import Arguments
from tracereel._scopes.calls import LlmScope, LlmSpec, as_list
from tracereel.integrations._dialects import Dialect
from tracereel.providers.base import Failure

_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_TEMPERATURE: Final = ("temperature",)
_CONFIG: Final = "generationConfig"
_SETTINGS: Final = frozenset({*_LIMITS, *_TEMPERATURE, _CONFIG})
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


def bounded(value: Any) -> Any:
    """Data that is nobody else's already, as much of it as an event may have."""
    found = _written.written(value)
    return _values.plain(value) if found is None else found


class ClientScope(LlmScope):
    """A call of a model by its provider's client."""

    __slots__ = ("before", "dialect", "extra", "sent", "was_streamed")

    def __init__(
        self, recorder: Recorder, spec: LlmSpec, body: dict[str, Any], dialect: Dialect
    ) -> None:
        self.dialect = dialect
        self.extra: dict[str, Any] = {}
        """Fields of the closing event that only the wire knows."""
        self.before: list[dict[str, Any]] = []
        """Events of the answer that wait for the closing one: they are written together."""
        self.was_streamed = False
        self.sent: bytes | None = None
        """The request's body, where the client has told it."""
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
        _emission.record_all(
            events, self.execution, recorder, now_ns, closes_run=closes_run, seconds=seconds
        )

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any] | None:
        event = super().closing_failed(error, milliseconds)
        if event is not None and isinstance(error, FailedAnswerError):
            event["error_type"] = error.failure.type
            event["error_code"] = error.failure.code or event["error_code"]
        return event

    def settings(self) -> tuple[float | None, int | None]:
        """Temperature and length that were asked for; nearly always neither."""
        if _SETTINGS.isdisjoint(self.arguments.kwargs):
            return None, None
        return self.temperature(), self.max_tokens()

    def temperature(self) -> float | None:
        found = self._setting(_TEMPERATURE)
        return None if found is None else _values.real(found)

    def max_tokens(self) -> int | None:
        found = self._setting(_LIMITS)
        return None if found is None else _values.count(found)

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

    def span_times(self) -> tuple[int, int, int, float]:
        """Of a call that ends now: begin and end in nanoseconds since 1970, milliseconds, seconds."""
        end_ns, milliseconds, seconds = self._now()
        return self._start_ns, end_ns, milliseconds, seconds

    def asked(self) -> Any:
        """What was asked, if that may be recorded."""
        return self._messages() if self.captures else None

    def _messages(self) -> Any:
        if self.sent is not None:
            # As it went over the wire: nothing has to be made of it.
            found = self.dialect.written(self.sent)
            if found is not None:
                return found
        messages = self.dialect.messages(self.arguments.kwargs)
        if messages is None:
            return None
        return as_list(messages)
