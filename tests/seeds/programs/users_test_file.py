"""The printed test of the contract; run by pytest in a process of its own."""

import pytest

import tracereel.testing
from tracereel import record_decision, traced_agent
from tracereel.testing import EventRecorder


@pytest.fixture
def anyio_backend():
    return "asyncio"


class SharedContext:
    trace_id = "trc_printed"


class ParsingAgent:
    def __init__(self, event_collector=None):
        self.event_collector = event_collector

    @traced_agent("parsing_agent")
    async def process(self, context):
        record_decision("entity_extraction", reasoning="a date is named", confidence=0.92)
        return {"date": "tomorrow"}


def check(events):
    assert any(e["event_type"] == "agent.execution.started" for e in events)
    assert any(e["event_type"] == "agent.execution.completed" for e in events)
    assert any(e["event_type"] == "agent.decision.recorded" for e in events)


@pytest.mark.anyio
async def test_in_a_block():
    with EventRecorder() as collector:
        await ParsingAgent().process(SharedContext())
    check(collector.get_events())


@pytest.mark.anyio
async def test_agent_events_emitted():
    collector = tracereel.testing.MockEventCollector()

    agent = ParsingAgent(event_collector=collector)
    context = SharedContext()

    await agent.process(context)

    check(collector.get_events())
