"""Streamed responses that hold a slot release it however they end."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from starlette.requests import ClientDisconnect

from tracereel_collector.http.streams import HeldStream
from tracereel_collector.runtime.tenant_shares import TenantShares

SCOPE = {"type": "http", "asgi": {"spec_version": "2.4"}}


async def chunks():
    yield b"one"
    yield b"two"


@pytest.mark.parametrize("ends_at", [0, 1, 2, None])
def test_slot_is_free_when_the_reader_leaves_at_any_time(ends_at):
    slots = TenantShares("playbacks", 1)
    sent = []

    async def send(message):
        if len(sent) == ends_at:
            raise ConnectionResetError
        sent.append(message)

    async def run():
        held = AsyncExitStack()
        held.enter_context(slots.holding("t"))
        await HeldStream(chunks(), held=held)(SCOPE, None, send)

    if ends_at is None:
        asyncio.run(run())
    else:
        with pytest.raises(ClientDisconnect):
            asyncio.run(run())
    assert slots.used == 0
