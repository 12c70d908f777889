"""Run playback: original pace, bounded in time and number."""

import asyncio
import time

import pytest

from tracereel_collector.errors import ThrottledError
from tracereel_collector.http.dependencies import Playbacks
from tracereel_collector.http.replay import play
from tracereel_collector.query.replay import Page
from tracereel_collector.query.run.positions import Cursor
from tracereel_collector.query.run.timeline import Entry


def page(*offsets, rest=None):
    entries = [
        Entry(Cursor(number, number), offset, b"{}") for number, offset in enumerate(offsets)
    ]
    return Page(trace_id="t", entries=entries, next=rest, summary={"total_events": len(entries)})


def played(*pages, **options):
    async def gather():
        waiting = list(pages[1:])

        async def onward(_):
            return waiting.pop(0)

        stopping = asyncio.Event()
        return [part async for part in play(pages[0], onward, stopping=stopping, **options)]

    return asyncio.run(gather())


def kinds(parts):
    return [part.split(b"event: ")[1].split(b"\n")[0].decode() for part in parts]


def test_pauses_are_those_of_the_run_divided_by_the_speed():
    began = time.monotonic()
    parts = played(page(0.0, 100.0, rest=Cursor(1)), page(200.0), speed=2.0)

    assert time.monotonic() - began >= 0.1
    assert kinds(parts) == ["step", "step", "step", "end"]


def test_a_step_back_in_time_is_no_pause():
    assert kinds(played(page(3_600_000.0, 0.0), speed=1.0)) == ["step", "step", "end"]


def test_without_a_speed_nothing_waits():
    assert kinds(played(page(0.0, 3_600_000.0), speed=0.0)) == ["step", "step", "end"]


def test_a_stopping_collector_ends_playbacks_at_once():
    async def gather():
        playbacks = Playbacks()
        parts = []
        async for part in play(
            page(0.0, 3_600_000.0), None, speed=1.0, stopping=playbacks.stopping
        ):
            parts.append(part)
            asyncio.get_running_loop().call_soon(playbacks.stopping.set)
        return parts

    parts = asyncio.run(asyncio.wait_for(gather(), timeout=10))

    assert kinds(parts) == ["step", "cut"]
    assert b"stopping" in parts[-1]


def test_a_playback_that_takes_too_long_is_cut():
    parts = played(page(0.0, 3_600_000.0), speed=1.0, max_seconds=0.05)

    assert kinds(parts) == ["step", "cut"]


def test_only_so_many_are_played_at_once():
    playbacks = Playbacks(most=2)
    playbacks.slots.take("t")
    with playbacks.slots.holding("t"), pytest.raises(ThrottledError, match="2 playbacks"):
        playbacks.slots.take("t")

    playbacks.slots.take("t")
    assert playbacks.slots.used == 2
