"""Changed programs as users write them: the verdict on every change, twice.

`make replay-corpus` makes more passes (`MUTATION_PASSES`), each with a recording of its own.
"""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

import tracereel
from tests.sdk.tape.programs import (
    mutated_frameworks,
    mutated_more_frameworks,
    mutated_plain,
    mutations,
)
from tests.sdk.tape.programs.mutations import PROGRAMS, Program
from tests.support import replay_clients
from tests.support.replay_trial import recording
from tests.support.replay_world import world
from tracereel.tape import DivergenceError, Tape
from tracereel.tape import format as tape_format

assert mutated_plain is not None  # they register their programs
assert mutated_frameworks is not None
assert mutated_more_frameworks is not None
FRAMEWORKS = ("graph_", "langchain_", "agents_", "pydantic_", "anthropic_", "openai_", "google_")
PASSES = int(os.environ.get("MUTATION_PASSES", "2"))


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    mutations.changes.clear()
    yield
    mutations.changes.clear()


def recorded(program: Program) -> Tape:
    world.begin(3)
    with replay_clients.serving(), recording() as events:
        program.run()
    mutations.ran.clear()
    return tape_format.parse(events)


def verdict_on(program: Program, tape: Tape, change: str) -> Any:
    """Replay with a change; nothing may be called for real."""
    mutations.changes.clear()
    mutations.changes.add(change)
    with tracereel.replay(tape, mode="report", stall_seconds=5.0) as run:
        try:
            program.run()
        except (Exception, DivergenceError, asyncio.CancelledError):
            assert change  # what an unchanged program raises is on its tape
    assert mutations.ran == []
    return run.report


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_change_of_a_program_has_its_verdict(name: str) -> None:
    program = PROGRAMS[name]
    wanted = {"": "same", **dict.fromkeys(program.harmless, "same"), **program.verdicts}

    tape = recorded(program)
    for number in range(PASSES):
        if number >= 2:
            tape = recorded(program)
        found = {change: verdict_on(program, tape, change) for change in wanted}
        wrong = {
            change: str(report)
            for change, report in found.items()
            if report.verdict != wanted[change]
        }
        assert not wrong, "\n\n".join(
            f"{change or 'unchanged'}: {text}" for change, text in wrong.items()
        )


def test_there_are_enough_programs_and_changes() -> None:
    with_frameworks = [each for each in PROGRAMS if each.startswith(FRAMEWORKS)]
    assert len(with_frameworks) >= 15, with_frameworks
    assert sum(len(each.verdicts) for each in PROGRAMS.values()) >= 70
    assert sum(len(each.harmless) for each in PROGRAMS.values()) >= 30
