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


def _passed(evidence, test):
    """Run the file of tests once, and assert that one of them passed."""
    if "users_tests" not in vars(evidence):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--noconftest"),
                *("-c", os.devnull, "--rootdir", str(PROGRAMS)),
                str(PROGRAMS / "users_test_file.py"),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        evidence.users_tests = done.stdout + done.stderr
    assert f"::{test} PASSED" in evidence.users_tests, evidence.users_tests


@check
def testing_async(row, evidence):
    _passed(evidence, "test_in_a_block")


@check
def testing_injected_collector(row, evidence):
    _passed(evidence, "test_agent_events_emitted")
