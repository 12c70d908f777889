"""The one message of a gRPC call: taken once, and only so many on their way in at a time."""

import asyncio

import pytest

from tracereel_collector.api.otlp_grpc import OneMessage
from tracereel_collector.errors import ThrottledError


async def stream(*messages):
    for message in messages:
        yield message


def test_the_first_message_is_the_body_and_no_other():
    async def run():
        one = OneMessage(stream(b"first", b"second"), asyncio.Semaphore(1))
        return [message async for message in one], one.came

    assert asyncio.run(run()) == ([b"first"], True)


def test_a_call_without_a_message_is_told_from_an_empty_one():
    async def run(*messages):
        one = OneMessage(stream(*messages), asyncio.Semaphore(1))
        return [message async for message in one], one.came

    assert asyncio.run(run()) == ([], False)
    assert asyncio.run(run(b"")) == ([b""], True)


def test_a_message_waits_for_its_turn_and_is_throttled_when_none_comes():
    async def run():
        slots = asyncio.Semaphore(1)
        arrives = asyncio.Event()

        async def slow():
            await arrives.wait()
            yield b"slow"

        first = asyncio.create_task(anext(OneMessage(slow(), slots)))
        await asyncio.wait([first], timeout=0)
        with pytest.raises(ThrottledError):
            await anext(OneMessage(stream(b"late"), slots, wait_seconds=0.01))
        waiting = asyncio.create_task(anext(OneMessage(stream(b"patient"), slots)))
        arrives.set()
        return await first, await waiting

    assert asyncio.run(run()) == (b"slow", b"patient")
