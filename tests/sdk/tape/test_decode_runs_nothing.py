"""Values of a tape are made again without running code of the classes that it names."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tracereel.tape import codec
from tracereel.tape.codec import MAX_ALIKE, UndecodableError

RAN: list[str] = []
HERE = __name__
PRIME = (1 << 61) - 1
"""Python's integers have their hash modulo this."""


@dataclass
class Watched:
    a: int = 1

    def __len__(self) -> int:
        RAN.append("len")
        return 1

    def __str__(self) -> str:
        RAN.append("str")
        return "text"

    def keys(self) -> list[str]:
        RAN.append("keys")
        return ["a"]

    def __getitem__(self, key: str) -> int:
        RAN.append("getitem")
        return 1

    def __getattribute__(self, name: str) -> Any:
        RAN.append(f"get {name}")
        return object.__getattribute__(self, name)


class Name(str):
    __slots__ = ()


class WatchedError(Exception):
    def __getattribute__(self, name: str) -> Any:
        RAN.append(f"get {name}")
        return super().__getattribute__(name)


class WatchedGroup(ExceptionGroup[Exception]):
    pass


class Colour(enum.Enum):
    RED = 1

    @enum.property
    def value(self) -> int:
        RAN.append("value")
        return 2

    @classmethod
    def _missing_(cls, value: object) -> None:
        RAN.append(f"missing {value}")


OBJECT = {"$": "dataclass", "c": f"{HERE}:Watched", "v": {"a": 1}}
PLAIN_ERROR = {"c": "builtins:ValueError", "bases": [], "args": [], "text": ""}


@pytest.fixture(autouse=True)
def _nothing() -> Iterator[None]:
    RAN.clear()
    yield
    assert RAN == []


def test_a_text_is_not_made_of_an_object() -> None:
    codec.decode({"$": "sub.str", "c": f"{HERE}:Name", "v": OBJECT})


@pytest.mark.parametrize(
    "data",
    [
        {"$": "pattern", "v": OBJECT, "f": 0},
        {"$": "namespace", "v": OBJECT},
        {"$": "time", "v": "10:00:00", "tz": OBJECT},
        {"$": "datetime", "v": "2020-01-01T00:00:00", "tz": OBJECT},
    ],
    ids=lambda data: str(data["$"]),
)
def test_an_object_in_place_of_plain_data_is_refused(data: Any) -> None:
    with pytest.raises(UndecodableError):
        codec.decode(data)


def test_an_exception_is_made_without_its_attribute_access() -> None:
    found = codec.decode(
        {
            "$": "exception",
            "c": f"{HERE}:WatchedError",
            "bases": [],
            "args": ["a"],
            "text": "a",
            "attributes": {"code": 3},
            "notes": ["look here"],
        }
    )
    held = BaseException.__dict__["__dict__"].__get__(found)
    assert held == {"code": 3, "__notes__": ["look here"]}


def test_the_message_of_a_group_is_text() -> None:
    found = codec.decode(
        {
            "$": "exception",
            "c": f"{HERE}:WatchedGroup",
            "bases": [],
            "args": [OBJECT],
            "text": "two errors",
            "parts": [PLAIN_ERROR],
        }
    )
    assert found.message == "two errors"


def test_a_member_is_found_without_its_properties() -> None:
    found = codec.decode({"$": "enum", "c": f"{HERE}:Colour", "n": "CRIMSON", "v": 1})
    assert found is Colour.RED


@pytest.mark.parametrize("tag", ["set", "frozenset", "map", "Counter"])
def test_keys_with_one_hash_are_refused(tag: str) -> None:
    keys: list[Any] = [number * PRIME for number in range(1, 2 * MAX_ALIKE + 2)]
    with pytest.raises(UndecodableError, match="share their hash"):
        codec.decode({"$": tag, "v": keys if "set" in tag else [[key, 1] for key in keys]})


def test_many_keys_with_hashes_of_their_own_are_made() -> None:
    assert len(codec.decode({"$": "set", "v": list(range(2 * MAX_ALIKE))})) == 2 * MAX_ALIKE
