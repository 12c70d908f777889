"""Failure table: maps exceptions to category, code and stage.

The first matching rule sets its values; later rules fill the missing ones. Rules are tried in this
order: `add_failure_rule`, `configure(failure_rules=…)`, defaults. A textual `code` attribute of the
exception overrides the table.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracereel import semconv
from tracereel._redact import safe_access, values
from tracereel._runtime import gevent_compat, guard
from tracereel.errors import ConfigurationError

TRANSIENT: Final = "transient"
PERMANENT: Final = "permanent"
VALIDATION: Final = "validation"
Category = Literal["transient", "permanent", "validation"]
CATEGORIES: Final = (TRANSIENT, PERMANENT, VALIDATION)


class ClassifiedError(Exception):
    """Error that knows its category and stage."""

    category: Category
    stage: str


@dataclass(frozen=True, slots=True, eq=False)
class FailureRule:
    """Rule that matches exceptions by class or class name, and classifies them.

    Names match classes (and base classes) that may not be installed. The optional `when` inspects the
    error; if it raises, the rule does not match.

    Raises:
        TypeError: no class or name was given, or a value of another type.
        ValueError: the category is not transient, permanent or validation.
    """

    errors: tuple[type[BaseException] | str, ...]
    category: Category | None = None
    code: str | None = None
    stage: str | None = None
    when: Callable[[Any], bool] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.errors, tuple) or not self.errors:
            raise TypeError(
                "a failure rule takes at least one exception class or name, as a tuple;"
                f" got {self.errors!r}"
            )
        for each in self.errors:
            if not (
                isinstance(each, str)
                or (isinstance(each, type) and issubclass(each, BaseException))
            ):
                raise TypeError(f"a failure rule takes exception classes or names; got {each!r}")
        if self.category is not None and self.category not in CATEGORIES:
            raise ValueError(
                f"category is {self.category!r}; expected one of {', '.join(CATEGORIES)}"
            )
        for name, value in (("code", self.code), ("stage", self.stage)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} is {value!r}; expected a text")
        if self.when is not None and not callable(self.when):
            raise TypeError(f"when is {self.when!r}; expected a function of the error")

    def matches(self, error: BaseException, names: frozenset[str]) -> bool:
        """Return whether the rule matches an error whose class and bases have these names."""
        for wanted in self.errors:
            if wanted in names if isinstance(wanted, str) else isinstance(error, wanted):
                break
        else:
            return False
        if self.when is None:
            return True
        try:
            return bool(self.when(error))
        except Exception as raised:  # noqa: BLE001 - the program's condition failed
            guard.pass_on(raised)
            return False


def _status_in(*statuses: int) -> Callable[[BaseException], bool]:
    return lambda error: _status(error) in statuses


def _server_error(error: BaseException) -> bool:
    status = _status(error)
    return status is not None and status >= 500


def rules() -> tuple[FailureRule, ...]:
    """Return all rules in order of precedence."""
    return (*_own, *_configured, *DEFAULT_RULES)


def _rule(
    category: Category,
    code: str | None,
    stage: str | None,
    *errors: type[BaseException] | str,
    when: Callable[[Any], bool] | None = None,
) -> FailureRule:
    return FailureRule(errors, category, code, stage, when)


DEFAULT_RULES: Final[tuple[FailureRule, ...]] = (
    _rule(
        PERMANENT,
        "NOT_AUTHENTICATED",
        "authentication",
        "AuthenticationError",
        "NotAuthenticatedError",
        "UnauthenticatedError",
        "UnauthorizedError",
    ),
    _rule(PERMANENT, "SESSION_NOT_FOUND", "authorization", "SessionNotFoundError"),
    _rule(
        PERMANENT,
        "ACCESS_DENIED",
        "authorization",
        PermissionError,
        "AuthorizationError",
        "ForbiddenError",
        "NotOwnerError",
        "OwnershipError",
        "PermissionDeniedError",
    ),
    _rule(VALIDATION, "EMPTY_INPUT", "input_validation", "EmptyInputError", "EmptyMessageError"),
    _rule(TRANSIENT, "LLM_TIMEOUT", "llm_call", "APITimeoutError", "LLMTimeoutError"),
    _rule(
        TRANSIENT,
        semconv.CODE_TIMEOUT,
        None,
        TimeoutError,
        "ExecutionTimeoutError",
        "Timeout",
        "TimeoutException",
    ),
    _rule(
        PERMANENT,
        semconv.CODE_ITERATION_LIMIT,
        "orchestration",
        "GraphRecursionError",
        "IterationLimitError",
        "MaxTurnsExceeded",
    ),
    _rule(
        PERMANENT,
        "GRAPH_FAILED",
        "orchestration",
        "GraphError",
        "GraphInvocationError",
        "InvalidUpdateError",
        "NodeError",
    ),
    _rule(
        TRANSIENT,
        "SEQUENCE_NUMBER_MISSING",
        "persistence",
        "MissingSequenceNumberError",
        "SequenceNumberError",
    ),
    _rule(PERMANENT, "PERSISTENCE_FAILED", "persistence", "IntegrityError"),
    _rule(
        TRANSIENT,
        "PERSISTENCE_FAILED",
        "persistence",
        "DatabaseError",
        "PersistenceError",
        "SQLAlchemyError",
    ),
    _rule(
        PERMANENT,
        "TOOL_FAILED",
        "tool_execution",
        "ToolError",
        "ToolException",
        "ToolExecutionError",
    ),
    _rule(PERMANENT, "FILE_NOT_FOUND", "context_preparation", FileNotFoundError),
    _rule(
        TRANSIENT,
        "RETRIEVAL_FAILED",
        "retrieval",
        "RetrievalError",
        "SearchError",
        "SemanticSearchError",
    ),
    _rule(VALIDATION, "UNKNOWN_STOP_REASON", "normalization", "UnknownStopReasonError"),
    _rule(VALIDATION, "JSON_INVALID", "json_parse", "JSONDecodeError"),
    _rule(VALIDATION, "VALIDATION_FAILED", "validation", "ValidationError"),
    _rule(TRANSIENT, "RATE_LIMITED", None, "RateLimitError"),
    _rule(TRANSIENT, "RATE_LIMITED", None, Exception, when=_status_in(429)),
    _rule(PERMANENT, "NOT_AUTHENTICATED", None, Exception, when=_status_in(401)),
    _rule(PERMANENT, "ACCESS_DENIED", None, Exception, when=_status_in(403)),
    _rule(TRANSIENT, semconv.CODE_TIMEOUT, None, Exception, when=_status_in(408, 504)),
    _rule(VALIDATION, None, None, Exception, when=_status_in(400, 413, 415, 422)),
    _rule(TRANSIENT, None, None, Exception, when=_server_error),
    _rule(
        TRANSIENT,
        None,
        None,
        ConnectionError,
        "APIConnectionError",
        "ClientConnectionError",
        "ConnectionError",
        "NetworkError",
        "RemoteProtocolError",
    ),
    _rule(VALIDATION, None, None, ValueError, TypeError),
)
"""Default rules: known failures first, then HTTP statuses and general exception classes."""

_own: tuple[FailureRule, ...] = ()
_configured: tuple[FailureRule, ...] = ()
_lock = gevent_compat.Lock()


def add_failure_rule(
    *errors: type[BaseException] | str,
    category: Category | None = None,
    code: str | None = None,
    stage: str | None = None,
    when: Callable[[Any], bool] | None = None,
) -> FailureRule:
    """Add a rule with precedence over all others, and return it.

    Args:
        errors: exception classes, or names of classes that may not be installed.
        when: optional condition on the error; if it raises, the rule does not match.

    Raises:
        TypeError: no class or name was given, or a value of another type.
        ValueError: the category is not transient, permanent or validation.
    """
    global _own
    rule = FailureRule(errors, category, code, stage, when)
    with _lock:
        _own = (rule, *_own)
    return rule


def remove_failure_rule(rule: FailureRule) -> None:
    """Remove a rule that `add_failure_rule` returned."""
    global _own
    with _lock:
        _own = tuple(each for each in _own if each is not rule)


def check_rules(given: object) -> tuple[FailureRule, ...]:
    """Validate the `failure_rules` of `configure` and return them as a tuple.

    Raises:
        ConfigurationError: the value is not a list of rules.
    """
    expected = "expected a list of tracereel.FailureRule"
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ConfigurationError(f"failure_rules is {given!r}; {expected}")
    found = tuple(given)
    for number, each in enumerate(found):
        if not isinstance(each, FailureRule):
            raise ConfigurationError(f"failure_rules[{number}] is {each!r}; {expected}")
    return found


def use_rules(given: tuple[FailureRule, ...]) -> None:
    """Replace the rules of the previous configuration."""
    global _configured
    _configured = given


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error or of its response, or None."""
    found = safe_access.attributes(error, ("status_code", "status", "response"))
    status = values.count(found.get("status_code", found.get("status")))
    if status is None and "response" in found:
        status = values.count(
            safe_access.attributes(found["response"], ("status_code",)).get("status_code")
        )
    return status
