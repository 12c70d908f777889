"""Agents of the corpus against tapes of programs that differ in one place: never the same.

The tape is changed instead of the program: an argument, a call that was not recorded, the result. To a
replay it is the tape of a program with that difference.
"""

import copy
import json
import os
from contextlib import nullcontext
from typing import Any

import pytest

import tracereel
from tests.support import replay_agents, replay_clients
from tests.support.replay_agents import AGENTS
from tests.support.replay_clients import CLIENTS
from tests.support.replay_trial import recording
from tests.support.replay_world import world
from tracereel.tape import DivergenceError, Report
from tracereel.tape import format as tape_format

Events = list[dict[str, Any]]
PASSES = int(os.environ.get("MUTATION_PASSES", "1"))
BOUNDARIES = ("llm", "tool", "retrieval")


def recorded(name: str) -> Events:
    world.begin(3)
    models = replay_clients.serving() if name in CLIENTS else nullcontext()
    with models, recording() as events:
        replay_agents.run(AGENTS[name])
    return [each for each in events if "tape_id" in each]


def report_of(name: str, events: Events) -> Report:
    world.begin(10**9)
    with tracereel.replay(tape_format.parse(events), mode="report", stall_seconds=3.0) as run:
        try:
            replay_agents.run(AGENTS[name])
        except (Exception, DivergenceError, BaseExceptionGroup):
            pass  # the replay compares how it ends
    assert world.asked == 0
    return run.report


def records(events: Events, kind: str) -> list[dict[str, Any]]:
    return [each for part in events for each in part["records"] if each["r"] == kind]


def served(events: Events) -> list[dict[str, Any]]:
    """Return the calls that a replay serves."""
    return [
        each
        for each in records(events, "open")
        if each["k"] in BOUNDARIES and not each.get("i") and each.get("c") != "block"
    ]


def changed(value: Any) -> Any:
    """Return plain data with its first text or number changed, or `None` if it has none."""
    if isinstance(value, str):
        return f"{value}~"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value + 1
    pairs = value.items() if isinstance(value, dict) else enumerate(value or ())
    for key, item in pairs:
        if str(key).startswith("$"):
            continue  # the type of a value
        new = changed(item)
        if new is not None:
            found = copy.copy(value)
            found[key] = new
            return found
    return None


def with_argument(events: Events, at: int) -> Events | None:
    """Return the tape with another argument of a call, or `None` if it has none in its record."""
    events = copy.deepcopy(events)
    calls = [each for each in served(events) if str(each.get("a")).startswith("=")]
    if not calls:
        return None
    new = changed(json.loads(calls[at]["a"][1:]))
    if new is None:
        return None
    calls[at]["a"] = "=" + json.dumps(new, separators=(",", ":"))
    return events


def without_last_call(events: Events) -> Events | None:
    calls = served(events)
    if not calls:
        return None
    gone = calls[-1]["n"]
    inside = {gone}
    for each in records(events, "open"):
        if each["p"] in inside:
            inside.add(each["n"])
    return [
        {**part, "records": [each for each in part["records"] if each.get("n") not in inside]}
        for part in events
    ]


def with_result(events: Events) -> Events | None:
    events = copy.deepcopy(events)
    (closed,) = records(events, "closed")
    given = str(closed.get("v"))
    new = changed(json.loads(given[1:])) if given.startswith("=") else None
    if new is None:
        return None
    closed["v"] = "=" + json.dumps(new, separators=(",", ":"))
    return events


@pytest.mark.parametrize("name", AGENTS)
def test_a_difference_is_never_the_same(name: str) -> None:
    tape = recorded(name)
    mutated = {
        "first argument": with_argument(tape, 0),
        "last argument": with_argument(tape, -1),
        "call": without_last_call(tape),
        "result": with_result(tape),
    }
    verdicts = {
        what: [report_of(name, events).verdict for _ in range(PASSES)]
        for what, events in mutated.items()
        if events is not None
    }

    assert verdicts, "there is nothing to change"
    for what, found in verdicts.items():
        assert set(found) <= {"changed", "prompt_changed"}, (what, found)
        assert len(set(found)) == 1, (what, found)
