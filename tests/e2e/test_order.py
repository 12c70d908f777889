"""A run across three machines with clocks minutes apart is replayed in causal order."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.support.waiting import wait_until

# One program in three places of the chain. Only the clock that the SDK reads is shifted.
PLACE = textwrap.dedent(
    """
    import asyncio, os, socket, sys, time
    skew, real = int(os.environ["SKEW"]) * 10**9, time.time_ns
    time.time_ns = lambda: real() + skew

    import httpx, tracereel, uvicorn
    from tracereel.integrations.asgi import TracereelMiddleware
    from tracereel.integrations.http_clients import trace_httpx

    onward = sys.argv[2]

    @tracereel.traced_agent(sys.argv[1])
    async def work():
        with tracereel.traced_tool("look up"):
            pass
        if onward:
            async with trace_httpx(httpx.AsyncClient(timeout=60)) as client:
                (await client.post(onward)).raise_for_status()
        tracereel.record_decision("answer", reasoning="known")
        return tracereel.current_execution().trace_id

    async def app(scope, receive, send):
        await work()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    if len(sys.argv) == 3:
        print(asyncio.run(work()), flush=True)
        assert tracereel.flush(20.0).spooled == 0
    else:
        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        options = uvicorn.Config(TracereelMiddleware(app), lifespan="off", log_level="warning")
        uvicorn.Server(options).run([listening])
    """
)


@pytest.fixture
def place(collector, tmp_path):
    """Start one of the three with its clock; the servers end with the test."""
    running = []

    def start(name, skew, onward, *, serve):
        process = subprocess.Popen(
            [sys.executable, "-c", PLACE, name, onward, *(["serve"] if serve else [])],
            env={
                **os.environ,
                "SKEW": str(skew),
                "TRACEREEL_ENDPOINT": collector.url,
                "TRACEREEL_SPOOL_DIR": str(tmp_path / name),
                "TRACEREEL_RAISE_INTERNAL_ERRORS": "1",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def address(process):
    return f"http://127.0.0.1:{int(process.stdout.readline())}/"


@pytest.mark.parametrize("skews", [(-300, 300, 0), (300, -300, 300)])
def test_three_clocks_five_minutes_wrong_either_way(collector, place, skews):
    third = place("third", skews[2], "", serve=True)
    second = place("second", skews[1], address(third), serve=True)
    first = place("first", skews[0], address(second), serve=False)
    trace_id, _ = first.communicate(timeout=60)
    assert first.returncode == 0

    timeline = wait_until(
        lambda: (
            found
            if (answer := collector.replay(trace_id.strip())).status == 200
            and len(found := answer.json()["timeline"]) == 12
            else None
        ),
        timeout=30,
    )

    told = [
        (entry["details"]["agent_name"], entry["event"].removeprefix("agent."))
        for entry in timeline
    ]
    names = ("first", "second", "third")
    assert told == [
        *((name, kind) for name in names for kind in ("execution.started", "tool.called")),
        *(
            (name, kind)
            for name in reversed(names)
            for kind in ("decision.recorded", "execution.completed")
        ),
    ]
    times = [entry["details"]["timestamp"] for entry in timeline]
    assert times != sorted(times), "by their own clocks they would be in another order"
