"""Checks of the tools for users' tests."""

import asyncio
import os
import subprocess
import sys

from tests.seeds.evidence import PROGRAMS
from tests.seeds.programs.users_test_file import (
    ParsingAgent,
    SharedContext,
)
from tests.seeds.programs.users_test_file import (
    check as printed_asserts,
)
from tests.seeds.registry import check
from tracereel.testing import EventRecorder


def recorded():
    with EventRecorder() as collector:
        asyncio.run(ParsingAgent().process(SharedContext()))
    return collector


@check
def testing_get_events(row, evidence):
    collector = recorded()
    assert [event["event_type"] for event in collector.get_events()] == [
        "agent.execution.started",
        "agent.decision.recorded",
        "agent.execution.completed",
    ]
    assert len(collector.get_events("agent.decision.recorded")) == 1


@check
def testing_asserts(row, evidence):
    printed_asserts(recorded().get_events())


def _pytest(test):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest"),
            *("-c", os.devnull, "--rootdir", str(PROGRAMS)),
            f"{PROGRAMS / 'users_test_file.py'}::{test}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@check
def testing_async(row, evidence):
    _pytest("test_in_a_block")


@check
def testing_injected_collector(row, evidence):
    _pytest("test_agent_events_emitted")
