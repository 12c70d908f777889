"""Payloads, references, entries and classes that a hostile tape names."""

import hashlib
import time
from typing import Any

import pytest
from pydantic import BaseModel, PrivateAttr

import tracereel
from tracereel import traced_agent, traced_tool
from tracereel.tape import Tape, TapeError, codec
from tracereel.tape import format as tape_format


@traced_tool("look", effect="read")
def look(text: str) -> str:
    return text.upper()


@traced_agent("clerk")
def clerk(text: str) -> str:
    return look(text)


@pytest.fixture
def tape(taped: Any) -> Tape:
    found: Tape = taped(lambda: clerk("hello"))[1]
    return found


def _with_blobs(tape: Tape, blobs: list[dict[str, Any]], reference: str) -> Tape:
    records = [dict(each) for each in tape.records]
    for record in records:
        if record["r"] == "closed":
            record["v"] = reference
    return tape_format.parse([{"tape_id": "t", "part": 0, "records": [*blobs, *records]}])


def _blob(text: str) -> dict[str, Any]:
    name = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    return {"r": "blob", "h": name, "v": text}


def test_a_small_tape_of_references_does_not_expand_for_long(tape: Tape) -> None:
    blobs = [_blob('"x"')]
    for _ in range(6):
        reference = f'{{"$":"ref","h":"{blobs[-1]["h"]}"}}'
        blobs.append(_blob(f"[{','.join([reference] * 20)}]"))
    bomb = _with_blobs(tape, blobs, f"#{blobs[-1]['h']}")

    begun = time.process_time()
    with pytest.raises(ValueError, match=r"longer than|too deeply"):
        bomb.data(f"#{blobs[-1]['h']}")
    assert bomb.closed is not None
    assert time.process_time() - begun < 5  # without the limit it takes minutes


def test_a_payload_of_another_hash_is_not_used(tape: Tape) -> None:
    forged = _with_blobs(tape, [{**_blob('"paid"'), "v": '"not paid"'}], "#" + _blob('"paid"')["h"])

    with pytest.raises(ValueError, match="is not on the tape"):
        forged.data("#" + _blob('"paid"')["h"])


def test_an_entry_of_another_name_or_kind_is_not_called(tape: Tape) -> None:
    for name, value in (("name", "another"), ("kind", "pipeline")):
        records = [{**each, name: value} if each["r"] == "run" else each for each in tape.records]
        other = tape_format.parse([{"tape_id": "t", "part": 0, "records": records}])

        with pytest.raises(TapeError, match="is another one here"), tracereel.replay(other) as run:
            run.call()


ran: list[str] = []


class _Watching(type):
    def __getattribute__(cls, name: str) -> Any:
        ran.append(name)
        return super().__getattribute__(name)


class Looked(metaclass=_Watching):
    pass


class Lazy(BaseModel):
    _made: Any = PrivateAttr(default_factory=lambda: ran.append("factory"))


def test_decoding_runs_neither_metaclasses_nor_factories() -> None:
    ran.clear()
    module = __name__
    for data in (
        {"$": "dataclass", "c": f"{module}:Looked", "v": {}},
        {"$": "model", "c": f"{module}:Lazy", "v": {}, "set": []},
        {"$": "exception", "c": f"{module}:Looked", "bases": [], "args": [], "text": ""},
    ):
        codec.decode(data)

    assert ran == []
