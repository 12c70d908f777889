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
    *errors: type[BaseException] | str,
    category: Category | None = None,
    code: str | None = None,
    stage: str | None = None,
    when: Callable[[Any], bool] | None = None,
) -> FailureRule:
    return FailureRule(errors, category, code, stage, when)


DEFAULT_RULES: Final[tuple[FailureRule, ...]] = (
    _rule(
        "AuthenticationError",
        "NotAuthenticatedError",
        "UnauthenticatedError",
        "UnauthorizedError",
        category=PERMANENT,
        code="NOT_AUTHENTICATED",
        stage="authentication",
    ),
    _rule(
        "SessionNotFoundError", category=PERMANENT, code="SESSION_NOT_FOUND", stage="authorization"
    ),
    _rule(
        PermissionError,
        "AuthorizationError",
        "ForbiddenError",
        "NotOwnerError",
        "OwnershipError",
        "PermissionDeniedError",
        category=PERMANENT,
        code="ACCESS_DENIED",
        stage="authorization",
    ),
    _rule(
        "EmptyInputError",
        "EmptyMessageError",
        category=VALIDATION,
        code="EMPTY_INPUT",
        stage="input_validation",
    ),
    _rule(
        "APITimeoutError",
        "LLMTimeoutError",
        category=TRANSIENT,
        code="LLM_TIMEOUT",
        stage="llm_call",
    ),
    _rule(
        TimeoutError,
        "ExecutionTimeoutError",
        "Timeout",
        "TimeoutException",
        category=TRANSIENT,
        code=semconv.CODE_TIMEOUT,
    ),
    _rule(
        "GraphRecursionError",
        "IterationLimitError",
        "MaxTurnsExceeded",
        category=PERMANENT,
        code=semconv.CODE_ITERATION_LIMIT,
        stage="orchestration",
    ),
    _rule(
        "GraphError",
        "GraphInvocationError",
        "InvalidUpdateError",
        "NodeError",
        category=PERMANENT,
        code="GRAPH_FAILED",
        stage="orchestration",
    ),
    _rule(
        "MissingSequenceNumberError",
        "SequenceNumberError",
        category=TRANSIENT,
        code="SEQUENCE_NUMBER_MISSING",
        stage="persistence",
    ),
    _rule("IntegrityError", category=PERMANENT, code="PERSISTENCE_FAILED", stage="persistence"),
    _rule(
        "DatabaseError",
        "PersistenceError",
        "SQLAlchemyError",
        category=TRANSIENT,
        code="PERSISTENCE_FAILED",
        stage="persistence",
    ),
    _rule(
        "ToolError",
        "ToolException",
        "ToolExecutionError",
        category=PERMANENT,
        code="TOOL_FAILED",
        stage="tool_execution",
    ),
    _rule(
        FileNotFoundError, category=PERMANENT, code="FILE_NOT_FOUND", stage="context_preparation"
    ),
    _rule(
        "RetrievalError",
        "SearchError",
        "SemanticSearchError",
        category=TRANSIENT,
        code="RETRIEVAL_FAILED",
        stage="retrieval",
    ),
    _rule(
        "UnknownStopReasonError",
        category=VALIDATION,
        code="UNKNOWN_STOP_REASON",
        stage="normalization",
    ),
    _rule("JSONDecodeError", category=VALIDATION, code="JSON_INVALID", stage="json_parse"),
    _rule("ValidationError", category=VALIDATION, code="VALIDATION_FAILED", stage="validation"),
    _rule("RateLimitError", category=TRANSIENT, code="RATE_LIMITED"),
    _rule(Exception, category=TRANSIENT, code="RATE_LIMITED", when=_status_in(429)),
    _rule(Exception, category=PERMANENT, code="NOT_AUTHENTICATED", when=_status_in(401)),
    _rule(Exception, category=PERMANENT, code="ACCESS_DENIED", when=_status_in(403)),
    _rule(Exception, category=TRANSIENT, code=semconv.CODE_TIMEOUT, when=_status_in(408, 504)),
    _rule(Exception, category=VALIDATION, when=_status_in(400, 413, 415, 422)),
    _rule(Exception, category=TRANSIENT, when=_server_error),
    _rule(
        ConnectionError,
        "APIConnectionError",
        "ClientConnectionError",
        "ConnectionError",
        "NetworkError",
        "RemoteProtocolError",
        category=TRANSIENT,
    ),
    _rule(ValueError, category=VALIDATION),
    _rule(TypeError, category=VALIDATION),
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
