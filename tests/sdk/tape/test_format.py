"""Reading of tapes from records."""

from typing import Any

from tracereel.tape import format as tape_format


def test_records_cannot_set_the_fields_of_the_parser():
    nested: Any = []
    for _ in range(5_000):
        nested = [
            {"n": 1, "p": 0, "k": "tool", "name": "x", "c": "call", "t": 0, "_children": nested}
        ]
    call = {"r": "open", "n": 1, "p": 0, "k": "tool", "name": "look", "c": "call", "t": 0}
    forged = {**call, "_children": nested, "_end": {"n": 1}, "_chunks": "no list", "_after": "x"}

    tape = tape_format.parse([{"tape_id": "t", "part": 0, "records": [forged]}])

    assert [(each.end, each.chunks, each.children) for each in tape.calls.values()] == [
        (None, [], [])
    ]
