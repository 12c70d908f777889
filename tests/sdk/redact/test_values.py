"""Arbitrary values become bounded text, sizes and JSON without running their code."""

import enum
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tracereel import events, semconv
from tracereel._redact import values as _values


class Hostile:
    """Object that raises on every access."""

    def __init__(self) -> None:
        object.__setattr__(self, "visible", 1)

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("touched")

    def __repr__(self) -> str:
        raise RuntimeError("touched")

    __str__ = __hash__ = __len__ = __iter__ = __bool__ = __eq__ = __repr__  # type: ignore[assignment]


class LazyList(list):  # type: ignore[type-arg]
    """List whose iteration would query a database."""

    def __iter__(self) -> Any:
        raise RuntimeError("evaluated")

    __len__ = __iter__


class Colour(enum.Enum):
    RED = 1


@dataclass
class Parsed:
    contact: str
    days: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    a: int = 1


class Model(BaseModel):
    prompt: str


class Struct(msgspec.Struct):
    a: int


class Point(NamedTuple):
    x: int
    y: int


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=20)
    | st.datetimes()
    | st.uuids()
    | st.decimals()
    | st.complex_numbers()
    | st.builds(Hostile)
    | st.builds(LazyList, st.just([1]))
    | st.sampled_from([Colour.RED, int, len])
    | st.builds(lambda: 10**5000)
    | st.just("\ud800lone")
)
keys = st.text(st.characters()) | st.integers() | st.none() | st.tuples(st.integers())
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(keys, inner, max_size=5)
        | st.tuples(inner, inner)
        | st.builds(Parsed, inner)
        | st.builds(deque, st.lists(inner, max_size=3))
    ),
    max_leaves=30,
)


@given(values)
def test_any_value_encodes_to_strict_json_with_unique_keys(value: object) -> None:
    """Spool lines can be decoded by a strict reader, whatever the value."""
    line = _values.encode({"data": _values.plain(value)})
    assert b"\n" not in line
    decoded = msgspec.json.decode(line, strict=True)
    assert _values.encode(decoded) == line


@given(values)
def test_raw_value_in_an_event_is_repaired_not_raised(value: object) -> None:
    """The encoder has a fallback for unprepared values."""
    msgspec.json.decode(_values.encode({"data": value}))


@given(values)
def test_summaries_are_bounded_and_encodable(value: object) -> None:
    """At most 200 characters, valid UTF-8, for every value."""
    shown = _values.summary(value)
    assert len(shown) <= semconv.SUMMARY_LIMIT
    shown.encode()
    assert len(_values.call_summary([("x", value), ("y", value)])) <= semconv.SUMMARY_LIMIT
    assert _values.size(value) >= 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("as it is", "as it is"),
        (None, "None"),
        ({"a": 1, "b": [1.5, True]}, "{'a': 1, 'b': [1.5, True]}"),
        (Parsed("Ana", [1]), "Parsed(contact: 'Ana', days: [1])"),
        (Slotted(), "Slotted(a: 1)"),
        (Model(prompt="hi"), "Model(prompt: 'hi')"),
        (Struct(a=2), "Struct(a: 2)"),
        (Point(1, 2), "(1, 2)"),
        (Colour.RED, "Colour.RED"),
        (b"abc", "<3 bytes>"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00+00:00"),
        (10**1000, "<int of 3322 bits>"),
        (object(), "<object>"),
        (LazyList([1, 2]), "[1, 2]"),
        (defaultdict(int, a=1), "{'a': 1}"),
        (OrderedDict(a=1), "{'a': 1}"),
        ({1}, "{1}"),
        (len, "<function len>"),
        (int, "<class int>"),
        (ValueError("no"), "ValueError(args: ('no',))"),
    ],
)
def test_summary_shows_structure(value: object, expected: str) -> None:
    assert expected == _values.summary(value)


def test_no_code_of_the_value_is_run() -> None:
    """Objects that raise on every access are described by their class and fields."""
    assert _values.summary(Hostile()) == "Hostile(visible: 1)"
    assert _values.plain(Hostile()) == {"visible": 1}
    assert _values.size(Hostile()) > 0


def test_cycles_end() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert _values.plain(loop) == [1, "<cycle>"]
    assert len(_values.summary(loop)) <= semconv.SUMMARY_LIMIT
    assert _values.size(loop) > 0


def test_work_on_huge_values_is_bounded() -> None:
    """Ten million entries are sampled: size is extrapolated, the copy is cut."""
    huge = [0] * 10_000_000
    assert len(_values.plain(huge)) <= 2_000
    assert 19_000_000 < _values.size(huge) < 31_000_000
    assert len(_values.plain("x" * 50_000_000)) == _values.TEXT_LIMIT


def test_size_of_small_values_is_that_of_their_json() -> None:
    assert _values.size("abc") == len('"abc"')
    assert _values.size("mañana") == len('"mañana"'.encode())
    assert _values.size([1, 22]) == len("[1,22]")


class _Odd(type):
    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = None  # type: ignore[assignment]


class Oddity(metaclass=_Odd):
    def __init__(self) -> None:
        self.a = 1


def test_a_class_that_cannot_be_hashed_or_compared_is_described() -> None:
    assert _values.summary(Oddity()) == "Oddity(a: 1)"
    assert _values.plain([Oddity()]) == [{"a": 1}]
    assert _values.size(Oddity()) > 0


class Lying:
    """Computing its size would run its own code."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        raise RuntimeError("evaluated")


def test_size_of_opaque_values_is_what_they_hold_or_nothing() -> None:
    """The size of an array if reading it runs no Python code; else 0, never a guess."""
    numpy = pytest.importorskip("numpy")
    assert _values.size(numpy.zeros(1000)) == 8000


def test_size_of_what_cannot_be_known_is_zero() -> None:
    assert _values.size(object()) == 0
    assert _values.size(Lying()) == 0


def test_size_of_large_text_counts_bytes_not_characters() -> None:
    for text in ("ñ" * 1_000_000, "日本語" * 300_000, "x" * 999_999 + "é"):
        exact = len(text.encode()) + 2
        assert abs(_values.size(text) - exact) <= exact * 0.01


def test_truncated_text_has_length_and_bounded_hash() -> None:
    short, long, huge = "x" * 300, "y" * 20_000, "z" * 5_000_000
    assert type(_values.text(short)) is str
    assert type(_values.summary(long)) is str
    cut = _values.text(long)
    assert isinstance(cut, _values.Cut)
    assert len(cut) <= _values.TEXT_LIMIT
    kept = cut.count("y")
    assert cut == long[:kept] + f"…[{20_000 - kept} characters removed]…"
    assert kept > _values.TEXT_LIMIT - 40
    assert cut.about == {"length": 20_000, "sha256": sha256(long.encode()).hexdigest()}
    about = _values.about_cut(huge)
    assert about["length"] == 5_000_000
    assert about["sha256_of_first"] == _values.HASHED_LIMIT
    assert about["sha256"] == sha256(b"z" * _values.HASHED_LIMIT).hexdigest()


def test_a_cut_text_inside_data_has_its_note_beside_it() -> None:
    data = _values.plain({"prompt": "x" * 20_000, "n": 1})
    assert len(data["prompt"]) == _values.TEXT_LIMIT
    assert data["prompt_truncated"] == _values.about_cut("x" * 20_000)
    assert set(data) == {"prompt", "prompt_truncated", "n"}


def test_keys_that_become_equal_in_json_stay_apart() -> None:
    assert _values.plain({1: "a", "1": "b"}) == {"1": "a", "1'": "b"}


def test_numbers_json_cannot_hold_become_null_or_text() -> None:
    assert [None, None, str(2**63)] == _values.plain([float("nan"), float("inf"), 2**63])


def test_surrogates_are_replaced() -> None:
    assert _values.text("a\ud800") == "a\N{REPLACEMENT CHARACTER}"
    assert _values.text("\ud83d\ude00") == "\U0001f600"


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), "0.5", True, object(), None])
def test_an_impossible_ratio_is_null(value: object) -> None:
    assert _values.ratio(Hostile()) is None
    assert _values.ratio(value) is None


@pytest.mark.parametrize("value", [-1, 2**63, 1.5, "3", True, object(), None])
def test_an_impossible_count_is_null(value: object) -> None:
    assert _values.count(Hostile()) is None
    assert _values.count(value) is None


def test_limits_are_those_of_the_contract() -> None:
    """The constants that avoid importing pydantic agree with the event models."""
    assert semconv.EVENT_VERSION == events.EVENT_VERSION
    assert semconv.SUMMARY_LIMIT == events.SUMMARY_LIMIT
    assert set(semconv.LOG_LINES) <= set(events.EVENT_TYPES)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=60),
    lambda inside: (
        st.lists(inside, max_size=5) | st.dictionaries(st.text(max_size=8), inside, max_size=5)
    ),
    max_leaves=40,
)


@given(_json)
def test_plain_data_is_copied_unchanged(value: Any) -> None:
    assert _values.encode({"data": _values.plain(value)}) == _values.encode({"data": value})


@given(values)
def test_conversion_is_idempotent_and_bounded(value: object) -> None:
    once = _values.plain(value)
    assert _values.plain(once) == once
    assert _nodes(once) <= 2_000
    assert _depth(once) <= 13


def _nodes(data: Any) -> int:
    inside = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + sum(map(_nodes, inside))


def _depth(data: Any) -> int:
    inside = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + max(map(_depth, inside), default=0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text("abcñ日 ", max_size=20),
        lambda inside: (
            st.lists(inside, max_size=4)
            | st.dictionaries(st.text("abcñ", max_size=5), inside, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_size_of_plain_data_is_the_length_of_its_json(value: Any) -> None:
    assert _values.size(value) == len(msgspec.json.encode(value))


@pytest.mark.parametrize("enclose", [lambda x: [x], lambda x: {"a": x}, lambda x: Parsed(x)])
def test_a_value_inside_itself_is_named_as_a_cycle(enclose: Any) -> None:
    around: list[Any] = []
    around.append(enclose(around))
    assert "<cycle>" in _values.encode({"data": _values.plain(around)}).decode()
    assert "<cycle>" in _values.summary(around)


def test_a_value_that_is_there_twice_is_no_cycle() -> None:
    shared = ["x"]
    assert _values.plain({"a": shared, "b": [shared]}) == {"a": ["x"], "b": [["x"]]}


@pytest.mark.parametrize("value", [(1,), (), ("a", (2.5, None)), {"a": [True]}, [], {}])
def test_summary_of_builtin_containers_is_their_repr(value: object) -> None:
    assert _values.summary(value) == repr(value)
