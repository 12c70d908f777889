"""Frozen replays: the recorded date, and the same random numbers and ids every time."""

import calendar
import random
import time
import uuid
from datetime import UTC, datetime
from time import time as clock
from typing import Any
from uuid import uuid4

import numpy as np

import tracereel
from tracereel import traced_agent, traced_tool
from tracereel.tape import fork
from tracereel.tape import format as tape_format


@traced_tool("search", effect="read")
def search(query: str) -> str:
    return query


def test_time_random_numbers_and_ids_can_be_frozen(taped: Any) -> None:
    seen: list[Any] = []

    @traced_agent("l")
    def looks() -> None:
        search("x")
        seen.append((time.time(), datetime.now(UTC), random.random(), uuid.uuid4()))

    _, tape = taped(looks)
    for _ in range(2):
        with tracereel.replay(tape, freeze=True):
            looks()
    looks()
    recorded, first, second, now = seen

    assert first[2:] == second[2:]
    assert first[2:] != now[2:]
    assert abs((first[1] - recorded[1]).total_seconds()) < 60
    assert type(first[1]) is datetime
    assert isinstance(now[1], datetime)
    assert time.time.__module__ == "time"


def test_functions_imported_by_name_and_all_time_functions_are_frozen(taped: Any) -> None:
    seen: list[list[Any]] = []

    @traced_agent("l")
    def looks() -> None:
        times = [clock(), time.time_ns() / 1e9, calendar.timegm(time.gmtime())]
        texts = [time.strftime("%F"), time.ctime(), time.asctime(), time.localtime().tm_year]
        seen.append([uuid4(), float(np.random.rand()), times, texts])

    _, tape = taped(looks)
    records = [
        {**each, "started": "2020-02-02T12:00:00Z"} if each["r"] == "run" else each
        for each in tape.records
    ]
    old = tape_format.parse([{"tape_id": tape.tape_id, "part": 0, "records": records}])
    before = clock, uuid4, time.strftime, np.random.get_state()[1].tolist()
    for _ in range(2):
        with tracereel.replay(old, freeze=True, mode="report"), tracereel.replay(old, freeze=True):
            looks()
        with tracereel.replay(old, freeze=True):
            looks()
    with fork(old, freeze=True):
        looks()
    _, *frozen = seen

    assert frozen[1] == frozen[3] == frozen[4]
    assert frozen[0] == frozen[2]
    for _, _, times, texts in frozen:
        assert all(0 <= each - 1580644800 < 60 for each in times)
        assert texts[0] == "2020-02-02"
        assert all("2020" in str(each) for each in texts)
    assert before == (clock, uuid4, time.strftime, np.random.get_state()[1].tolist())


def test_a_frozen_run_that_keeps_to_a_time_makes_as_many_calls_as_it_did(taped: Any) -> None:
    @traced_tool("step", effect="read")
    def step(number: int) -> int:
        time.sleep(0.4)
        return number

    @traced_agent("hurried")
    def hurried() -> int:
        end = time.time() + 1
        made = 0
        while time.time() < end:
            made = step(made) + 1
        return made

    made, tape = taped(hurried)
    with tracereel.replay(tape, freeze=True) as run:
        assert hurried() == made

    assert run.report.identical
