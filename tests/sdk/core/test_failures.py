"""Failure classification: the table, custom rules, and the origin of propagated errors."""

import asyncio
import gc
import json
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import tracereel
from tests.support.ingest_sink import IngestSink
from tracereel import (
    FailureRule,
    add_failure_rule,
    current_execution,
    failures,
    remove_failure_rule,
    traced_agent,
    traced_pipeline,
    traced_step,
)
from tracereel._core import error_details, recorder

Deliver = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def _no_rules_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_own", ())
    monkeypatch.setattr(failures, "_configured", ())


def error_class(name: str, base: type[Exception] = Exception) -> type[Exception]:
    return type(name, (base,), {})


MATRIX = [
    (
        "not authenticated",
        "NotAuthenticatedError",
        "NOT_AUTHENTICATED",
        "permanent",
        "authentication",
    ),
    ("no such session", "SessionNotFoundError", "SESSION_NOT_FOUND", "permanent", "authorization"),
    ("not the owner", PermissionError, "ACCESS_DENIED", "permanent", "authorization"),
    ("empty message", "EmptyMessageError", "EMPTY_INPUT", "validation", "input_validation"),
    ("execution timeout", TimeoutError, "EXECUTION_TIMEOUT", "transient", "agent"),
    ("graph failed", "GraphError", "GRAPH_FAILED", "permanent", "orchestration"),
    ("persistence", sqlite3.OperationalError, "PERSISTENCE_FAILED", "transient", "persistence"),
    (
        "no sequence number",
        "SequenceNumberError",
        "SEQUENCE_NUMBER_MISSING",
        "transient",
        "persistence",
    ),
    ("tool failed", "ToolExecutionError", "TOOL_FAILED", "permanent", "tool_execution"),
    ("no such file", FileNotFoundError, "FILE_NOT_FOUND", "permanent", "context_preparation"),
    ("search failed", "SemanticSearchError", "RETRIEVAL_FAILED", "transient", "retrieval"),
    ("stop reason", "UnknownStopReasonError", "UNKNOWN_STOP_REASON", "validation", "normalization"),
]


@pytest.mark.parametrize(
    ("kind", "code", "category", "stage"),
    [row[1:] for row in MATRIX],
    ids=[row[0] for row in MATRIX],
)
def test_the_twelve_rows_of_the_failure_matrix(
    recorded: Deliver, kind: Any, code: str, category: str, stage: str
) -> None:
    error = (error_class(kind) if isinstance(kind, str) else kind)("x")

    @traced_agent("a")
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        fail()
    failed = recorded()[1]
    assert (failed["error_code"], failed["error_category"]) == (code, category)
    assert failed["stage"] == stage


class Model(BaseModel):
    number: int


def raised(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    return caught.value


class HttpError(Exception):
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


@pytest.mark.parametrize(
    ("error", "code", "category"),
    [
        (raised(lambda: json.loads("{")), "JSON_INVALID", "validation"),
        (raised(lambda: Model(number="x")), "VALIDATION_FAILED", "validation"),
        (error_class("RateLimitError")(), "RATE_LIMITED", "transient"),
        (error_class("LLMTimeoutError")(), "LLM_TIMEOUT", "transient"),
        (
            error_class("ReadTimeout", error_class("TimeoutException"))(),
            "EXECUTION_TIMEOUT",
            "transient",
        ),
        (error_class("GraphRecursionError")(), "ITERATION_LIMIT_REACHED", "permanent"),
        (sqlite3.IntegrityError("x"), "PERSISTENCE_FAILED", "permanent"),
        (HttpError(429), "RATE_LIMITED", "transient"),
        (HttpError(401), "NOT_AUTHENTICATED", "permanent"),
        (HttpError(403), "ACCESS_DENIED", "permanent"),
        (HttpError(422), "UNHANDLED", "validation"),
        (HttpError(503), "UNHANDLED", "transient"),
        (HttpError(418), "UNHANDLED", "permanent"),
        (KeyError("x"), "UNHANDLED", "permanent"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_errors_of_clients_and_parsers_are_classified(
    error: BaseException, code: str, category: str
) -> None:
    found = error_details.describe(error)
    assert (found.error_code, found.error_category) == (code, category)


def test_rules_of_the_program_come_first_and_can_be_taken_back() -> None:
    first = add_failure_rule(KeyError, category="permanent", code="NO_KEY", stage="lookup")
    add_failure_rule("LookupError", category="transient", when=lambda error: error.args == ("b",))
    found = error_details.describe(KeyError("a"))
    assert (found.error_code, found.error_category, found.stage) == (
        "NO_KEY",
        "permanent",
        "lookup",
    )
    found = error_details.describe(KeyError("b"))
    assert (found.error_code, found.error_category) == ("NO_KEY", "transient")
    remove_failure_rule(first)
    assert error_details.describe(KeyError("a")).error_code == "UNHANDLED"


def test_a_rule_that_raises_does_not_match() -> None:
    add_failure_rule(Exception, code="X", when=lambda error: error.nonsense)
    assert error_details.describe(ValueError("x")).error_code == "UNHANDLED"


@pytest.mark.parametrize(
    ("errors", "options", "match"),
    [((), {}, "at least one"), ((7,), {}, "got 7"), ((KeyError,), {"category": "odd"}, "'odd'")],
)
def test_a_bad_rule_is_refused(errors: Any, options: Any, match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        add_failure_rule(*errors, **options)


def test_a_timeout_carries_its_limit(recorded: Deliver, sink: IngestSink) -> None:
    @traced_agent("a")
    async def slow() -> None:
        current_execution().set(timeout_seconds=0.001)
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(slow())
    recorded()
    (failed,) = sink.of_type("agent.execution.failed")
    assert (failed["error_code"], failed["timeout_seconds"]) == ("EXECUTION_TIMEOUT", 0.001)


def test_partial_output_is_kept(recorded: Deliver, sink: IngestSink) -> None:
    @traced_agent("a")
    def fail() -> None:
        current_execution().set(partial_output={"who": "Ana"})
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    recorded()
    assert sink.of_type("agent.execution.failed")[0]["partial_output"] == {"who": "Ana"}


class OwnError(Exception):
    pass


@pytest.mark.parametrize("kind", [OwnError, ValueError])
def test_the_origin_is_marked_once_and_the_outer_ones_as_propagated(
    recorded: Deliver, sink: IngestSink, kind: type[Exception]
) -> None:
    error = kind("x")

    @traced_step("parse")
    def step() -> None:
        raise error

    inner = traced_agent("inner")(lambda: step())
    middle = traced_agent("middle")(lambda: inner())
    outer = traced_pipeline("outer")(lambda: middle())
    with pytest.raises(kind) as caught:
        outer()
    assert caught.value is error
    recorded()
    first, second = sink.of_type("agent.execution.failed")
    (pipeline,) = sink.of_type("agent.pipeline.completed")
    assert (first["propagated"], first["origin_execution_id"]) == (False, None)
    for event in (second, pipeline):
        assert (event["propagated"], event["stage"]) == (True, "parse")
        assert event["origin_execution_id"] == first["execution_id"]


def test_a_group_of_errors_comes_from_where_its_first_error_does(
    recorded: Deliver, sink: IngestSink
) -> None:
    @traced_agent("inner")
    async def inner() -> None:
        raise TimeoutError("late")

    @traced_agent("middle")
    async def middle() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(inner())

    @traced_pipeline("whole")
    async def whole() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(middle())

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(whole())
    assert repr(caught.value).count("TimeoutError('late')") == 1
    recorded()
    origin, outer = sink.of_type("agent.execution.failed")
    (closed,) = sink.of_type("agent.pipeline.completed")
    assert (origin["error_type"], origin["propagated"]) == ("TimeoutError", False)
    for event in (outer, closed):
        assert (event["error_type"], event["propagated"]) == ("ExceptionGroup", True)
        assert event["origin_execution_id"] == origin["execution_id"]
        assert (event["error_code"], event["error_category"]) == ("EXECUTION_TIMEOUT", "transient")


def test_a_group_raised_by_the_agent_itself_is_its_own(recorded: Deliver) -> None:
    @traced_agent("a")
    def fail() -> None:
        raise ExceptionGroup("both", [ExceptionGroup("in", [ValueError("x")]), OSError("y")])

    with pytest.raises(ExceptionGroup):
        fail()
    failed = recorded()[1]
    assert (failed["propagated"], failed["error_category"]) == (False, "validation")


def test_an_exception_object_raised_again_is_a_new_failure(
    recorded: Deliver, sink: IngestSink
) -> None:
    error = OwnError("constant")

    @traced_agent("inner")
    def inner() -> None:
        raise error

    @traced_agent("outer")
    def outer() -> None:
        with pytest.raises(OwnError):
            inner()
        inner()

    with pytest.raises(OwnError):
        outer()
    with pytest.raises(OwnError):
        inner()
    recorded()
    failed = sink.of_type("agent.execution.failed")
    assert [event["propagated"] for event in failed] == [False, False, True, False]
    assert failed[2]["origin_execution_id"] == failed[1]["execution_id"]


def test_an_exception_is_not_kept_alive(recorded: Deliver) -> None:
    refs: list[weakref.ref[OwnError]] = []

    @traced_agent("inner")
    def inner() -> Iterator[int]:
        yield 1
        error = OwnError("x")
        refs.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    gc.disable()
    try:
        with traced_agent("outer"):
            try:
                list(inner())
            except OwnError:
                pass
        assert refs[0]() is None
    finally:
        gc.enable()


class FrozenError(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            raise AttributeError(name)
        super().__setattr__(name, value)


def test_an_exception_that_cannot_be_written_to_is_marked_all_the_same(
    recorded: Deliver, sink: IngestSink
) -> None:
    @traced_agent("inner")
    def inner() -> None:
        raise FrozenError("x")

    with pytest.raises(FrozenError):
        traced_agent("outer")(lambda: inner())()
    recorded()
    assert [e["propagated"] for e in sink.of_type("agent.execution.failed")] == [False, True]


def test_pydantic_validation_errors_are_described(recorded: Deliver) -> None:
    inner = traced_agent("inner")(lambda: Model(number="x"))
    with pytest.raises(ValidationError):
        traced_agent("outer")(lambda: inner())()
    assert recorded()[2]["error_code"] == "VALIDATION_FAILED"


class QuotaError(Exception):
    pass


def test_rules_of_the_configuration_come_before_the_defaults_and_after_those_added() -> None:
    tracereel.configure(
        failure_rules=[
            FailureRule((QuotaError,), category="permanent", code="QUOTA", stage="billing"),
            FailureRule((QuotaError,), code="LATER"),
            FailureRule(("TimeoutError",), code="OURS"),
        ]
    )
    told = error_details.describe(QuotaError())
    assert (told.error_code, told.error_category, told.stage) == ("QUOTA", "permanent", "billing")
    told = error_details.describe(TimeoutError())
    assert (told.error_code, told.error_category) == ("OURS", "transient")
    add_failure_rule(QuotaError, code="ADDED")
    told = error_details.describe(QuotaError())
    assert (told.error_code, told.error_category) == ("ADDED", "permanent")


def test_the_next_configuration_has_its_own_rules() -> None:
    tracereel.configure(failure_rules=[FailureRule((QuotaError,), code="QUOTA")])
    tracereel.configure()
    assert error_details.describe(QuotaError()).error_code == "UNHANDLED"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([QuotaError], r"failure_rules\[0\] is .*QuotaError.*expected a list of tracereel.Failure"),
        (QuotaError, "failure_rules is .*expected a list"),
        ("QuotaError", "failure_rules is 'QuotaError'; expected a list"),
        ([FailureRule(("X",)), {"code": "X"}], r"failure_rules\[1\] is {'code': 'X'}"),
    ],
)
def test_invalid_failure_rules_do_not_change_the_configuration(given: Any, message: str) -> None:
    tracereel.configure(failure_rules=[FailureRule((QuotaError,), code="QUOTA")])
    before = recorder.active()
    with pytest.raises(tracereel.ConfigurationError, match=message):
        tracereel.configure(failure_rules=given)
    assert recorder.active() is before
    assert error_details.describe(QuotaError()).error_code == "QUOTA"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"errors": ()}, TypeError, "at least one exception class or name"),
        ({"errors": QuotaError}, TypeError, "as a tuple; got .*QuotaError"),
        ({"errors": (3,)}, TypeError, "exception classes or names; got 3"),
        ({"errors": ("X",), "category": "bad"}, ValueError, "expected one of transient, permanent"),
        ({"errors": ("X",), "code": 3}, TypeError, "code is 3; expected a text"),
        ({"errors": ("X",), "when": 3}, TypeError, "when is 3; expected a function"),
    ],
)
def test_invalid_failure_rule_is_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        FailureRule(**options)


@pytest.mark.parametrize(
    ("stop", "kind"),
    [
        (SystemExit(), "cancelled"),
        (SystemExit(0), "cancelled"),
        (SystemExit(2), "failed"),
        (SystemExit("no such file"), "failed"),
        (KeyboardInterrupt(), "cancelled"),
    ],
)
def test_a_program_that_ends_well_has_not_failed(
    recorded: Deliver, stop: BaseException, kind: str
) -> None:
    @traced_agent("a")
    def leave() -> None:
        raise stop

    with pytest.raises(type(stop)) as caught:
        leave()
    assert caught.value is stop
    assert recorded()[-1]["event_type"] == f"agent.execution.{kind}"


def test_an_exception_that_carries_much_is_not_written_out_whole() -> None:
    written = []

    class Item:
        def __repr__(self):
            written.append(1)
            return "item"

    def chained():
        try:
            raise ValueError([Item()] * 1_000_000)
        except ValueError as cause:
            raise RuntimeError("outer") from cause

    with pytest.raises(RuntimeError) as caught:
        chained()
    error = caught.value

    assert error_details.describe(error).error_message == "outer"
    assert "in chained" in error_details.stack_trace(error)
    assert error_details.describe(error.__cause__).error_message.startswith("[Item(), ")
    assert len(error_details.describe(error.__cause__).error_message) <= error_details.MESSAGE_LIMIT
    assert error_details.stack_trace(ValueError("a", {"b": 1})).endswith(
        "ValueError: ('a', {'b': 1})\n"
    )
    assert written == []


@pytest.mark.parametrize("name", ["APIConnectionError", "NetworkError", "RemoteProtocolError"])
def test_a_connection_that_breaks_may_hold_the_next_time(name: str) -> None:
    """Connection errors of HTTP clients are not subclasses of `ConnectionError`."""
    error = type(name, (Exception,), {})("Connection error.")

    assert error_details.describe(error).error_category == "transient"
