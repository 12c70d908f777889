"""Tape codec: values round-trip with equal value and type; unsupported ones are named."""

import dataclasses
import math
import socket
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracereel.tape import classes, codec, payloads
from tracereel.tape.codec_types import TypeRecord


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: Any = None


@dataclasses.dataclass
class Loud:
    value: int

    def __post_init__(self) -> None:
        if self.value == 13:
            raise AssertionError("the codec ran code of the program's")


class Message(pydantic.BaseModel):
    model_config = {"extra": "allow"}
    role: str
    parts: list[Any] = []
    _seen: int = pydantic.PrivateAttr(default=0)


class Text(str):
    __slots__ = ()


class Pair(NamedTuple):
    left: Any
    right: Any


class RefusedError(Exception):
    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


def there_and_back(value: Any) -> Any:
    encoded = codec.encode(value)
    assert encoded.problems == ()
    return codec.decode(msgspec.json.decode(msgspec.json.encode(encoded.data)))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters())
    | st.binary(max_size=20)
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.complex_numbers(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.sampled_from([Colour.RED, Level.LOW, Word.YES, PurePosixPath("a/b"), Path("/x"), range(3)])
)
HASHABLE = SCALARS | st.tuples(SCALARS, SCALARS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.dictionaries(st.text(), inner, max_size=4)
        | st.builds(Point, st.integers(), inner)
        | st.builds(Pair, inner, inner)
        | st.builds(
            lambda parts: Message(role="user", parts=parts, more=parts), st.lists(inner, max_size=2)
        )
        | st.lists(inner, max_size=3).map(deque)
    ),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    """Return the types of a value, recursively."""
    kind = type(value)
    if isinstance(value, dict):
        return kind, [(shape(key), shape(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return kind, [shape(item) for item in value]
    if dataclasses.is_dataclass(value):
        return kind, [shape(getattr(value, each.name)) for each in dataclasses.fields(value)]
    return kind


@given(VALUES)
@settings(max_examples=150, deadline=None)
def test_values_round_trip_with_equal_types(value: Any) -> None:
    back = there_and_back(value)

    assert back == value
    assert shape(back) == shape(value)


@given(st.frozensets(HASHABLE) | st.sets(st.integers() | st.text()))
@settings(max_examples=50, deadline=None)
def test_sets_round_trip_in_a_stable_order(value: Any) -> None:
    assert there_and_back(value) == value
    turned = type(value)(reversed(list(value)))
    assert codec.encode(turned) == codec.encode(value)


@pytest.mark.parametrize(
    "value",
    [
        OrderedDict(b=1, a=2),
        Counter("aab"),
        SimpleNamespace(text="hello", usage=SimpleNamespace(tokens=3), at=date(2026, 1, 2)),
        Text("t"),
        bytearray(b"\xff"),
        datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Madrid")),
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=timezone(timedelta(hours=-3))),
        time(1, 2, tzinfo=UTC),
        date(2026, 1, 1),
        Decimal("1.10"),
        Fraction(1, 3),
        UUID(int=5),
        {"$": "looks like a tag"},
        "\ud800",
        {"\ud800": 1},
        2**200,
        -0.0,
        ...,
    ],
    ids=repr,
)
def test_single_types_round_trip(value: Any) -> None:
    back = there_and_back(value)

    assert back == value
    assert type(back) is type(value)


def test_nan_and_inf_round_trip() -> None:
    assert math.isnan(there_and_back(math.nan))
    assert there_and_back(-math.inf) == -math.inf


def test_a_default_dictionary_keeps_its_default() -> None:
    back = there_and_back(defaultdict(list, a=[1]))
    back["b"].append(2)

    assert back == {"a": [1], "b": [2]}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array(["a", "bcd"]),
        np.zeros((0, 3)),
        np.array([(1, 2.5)], dtype=[("a", "<i4"), ("b", "<f8")]),
        np.asfortranarray(np.eye(3)),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_round_trip(array: Any) -> None:
    back = there_and_back(array)

    assert back.dtype == array.dtype
    assert (back == array).all()
    back[...] = array  # it belongs to the program and is writable


def test_numpy_scalars_round_trip() -> None:
    back = there_and_back(np.float32(1.5))

    assert type(back) is np.float32
    assert back == 1.5


def test_no_code_of_the_program_runs_when_a_value_is_made_again() -> None:
    loud = Loud(1)
    loud.value = 13

    assert there_and_back(loud).value == 13


def test_models_keep_their_extra_and_private_attributes() -> None:
    message = Message(role="user", more={"a": (1,)})
    message._seen = 4
    back = there_and_back(message)

    assert back == message
    assert back._seen == 4
    assert back.model_fields_set == {"role", "more"}


def test_exceptions_round_trip_with_arguments_attributes_notes_and_cause() -> None:
    error = RefusedError("no", status=429)
    error.add_note("asked twice")
    error.__cause__ = OSError(2, "gone", "file")
    back = there_and_back(error)

    assert type(back) is RefusedError
    assert (back.args, back.status, back.__notes__) == (("no",), 429, ["asked twice"])
    assert back.__cause__.errno == 2
    assert str(back) == "no"


@pytest.mark.parametrize(
    "error",
    [
        KeyError("k"),
        FileNotFoundError(2, "gone", "x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ExceptionGroup("both", [ValueError(1), TypeError(2)]),
        TimeoutError(),
    ],
    ids=repr,
)
def test_standard_library_exceptions_round_trip(error: BaseException) -> None:
    back = there_and_back(error)

    assert type(back) is type(error)
    assert str(back) == str(error)


def test_an_exception_whose_class_is_not_here_is_caught_by_its_base() -> None:
    data = codec.encode(RefusedError("no", status=1)).data
    data = {**data, "c": "elsewhere.errors:RateLimitError", "bases": ["builtins:ConnectionError"]}
    back = codec.decode(data)

    assert isinstance(back, ConnectionError)
    assert type(back).__name__ == "RateLimitError"
    assert str(back) == "no"


def test_an_object_whose_class_is_not_here_has_its_fields() -> None:
    data = {"$": "dataclass", "c": "elsewhere:Answer", "v": {"text": "hi"}}
    back = codec.decode(data)

    assert isinstance(back, TypeRecord)
    assert back.text == "hi"
    assert codec.decode(codec.encode(back).data) == back


@pytest.mark.parametrize(
    "path",
    ["subprocess:Popen", "os:system", "xml.dom.pulldom:PullDOM", "builtins:eval", "a:<locals>.B"],
)
@pytest.mark.parametrize(
    "tag", ["dataclass", "model", "enum", "exception", "namedtuple", "sub.str"]
)
def test_tape_rebuilds_only_objects_of_the_declared_kind(path: str, tag: str) -> None:
    module = path.partition(":")[0]
    data = {"$": tag, "c": path, "n": "A", "bases": [], "args": [], "text": "", "set": []}
    value: Any = {} if tag in ("dataclass", "model") else []
    back = codec.decode({**data, "v": "text" if tag in ("sub.str", "enum") else value})

    assert type(back).__module__ in (
        "builtins", "tracereel.tape.codec_types", module if tag == "exception" else "builtins"
    )  # fmt: skip


def test_classes_of_modules_that_are_not_loaded_are_not_imported_unless_declared() -> None:
    import sys

    sys.modules.pop("colorsys", None)
    assert classes.resolve("colorsys:Nothing") is None
    assert "colorsys" not in sys.modules
    classes.declare("colorsys")
    assert classes.resolve("colorsys:Nothing") is None
    assert "colorsys" in sys.modules


def test_unsupported_values_are_named() -> None:
    with socket.socket() as client:
        encoded = codec.encode({"client": client, "n": 1})

    assert encoded.problems == ("socket:socket is of a type that is not known",)
    back = codec.decode(encoded.data)
    assert back["n"] == 1
    assert back["client"] == codec.Opaque("socket:socket", "is of a type that is not known")


def test_cyclic_and_deep_values_are_encoded_safely() -> None:
    around: list[Any] = []
    around.append(around)
    deep: Any = None
    for _ in range(500):
        deep = [deep]

    assert "refers to itself" in codec.encode(around).problems[0]
    assert "levels deep" in codec.encode(deep).problems[0]


def test_values_that_raise_are_reported_as_problems() -> None:
    class Nasty(dict[str, int]):
        def items(self) -> Any:
            raise RuntimeError("no")

    Nasty.__qualname__ = "Nasty"

    assert codec.encode([Nasty(a=1)]).problems


def test_custom_types_can_be_registered() -> None:
    class Money:
        def __init__(self, amount: Decimal) -> None:
            self.amount = amount

    codec.register(
        Money, tag="test.money", encode=lambda m: m.amount, decode=lambda amount: Money(amount)
    )
    back = there_and_back([Money(Decimal("1.5"))])

    assert back[0].amount == Decimal("1.5")


@pytest.mark.parametrize(
    "data",
    [{"$": "int"}, {"$": "set", "v": [[1], {}]}, {"$": "decimal", "v": "x"}, {"$": "map", "v": 3}],
)
def test_damaged_data_is_refused_with_one_kind_of_error(data: Any) -> None:
    with pytest.raises(codec.UndecodableError):
        codec.decode(data)


def test_a_growing_conversation_is_kept_once() -> None:
    blobs: list[dict[str, Any]] = []
    kept = payloads.Payloads(blobs.append)
    messages = [{"role": "user", "content": f"{number} " + "word " * 300} for number in range(30)]
    references = [kept.put({"messages": messages[: count + 1]}) for count in range(30)]
    size = sum(len(blob["v"]) for blob in blobs)
    whole = len(msgspec.json.encode(messages))

    assert size < 2 * whole
    found = payloads.blobs_of(blobs)
    for count, reference in enumerate(references):
        assert payloads.read(reference, found) == {"messages": messages[: count + 1]}


@given(VALUES)
@settings(max_examples=60, deadline=None)
def test_payloads_are_read_as_they_were_put(value: Any) -> None:
    blobs: list[dict[str, Any]] = []
    data = payloads.pack([value] * 3 + ["long " * 300], None).data
    reference = payloads.Payloads(blobs.append).put(data)

    assert payloads.read(reference, payloads.blobs_of(blobs)) == data


def test_long_payloads_travel_in_pieces_and_a_lost_piece_is_noticed() -> None:
    blobs: list[dict[str, Any]] = []
    text = "é" * 700_000
    reference = payloads.Payloads(blobs.append).put(text)

    assert len(blobs) == 3
    assert payloads.read(reference, payloads.blobs_of(blobs)) == text
    with pytest.raises(payloads.MissingPayloadError):
        payloads.read(reference, payloads.blobs_of(blobs[:-1]))


def test_the_hash_of_arguments_does_not_depend_on_the_order_of_keys_or_the_ids_of_a_run() -> None:
    one = payloads.hash_of({"a": {"x": 1, "y": 2}, "b": 2, "trace_id": "t1"})
    other = payloads.hash_of({"b": 2, "a": {"y": 2, "x": 1}, "trace_id": "t2"})

    assert one == other
    assert one != payloads.hash_of({"a": {"x": 1, "y": 3}, "b": 2})
