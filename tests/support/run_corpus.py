"""Program that records small runs of many kinds, each under the id `{kind}-{argument}`."""

import asyncio
import contextlib
import sys

import tracereel

PREFIX = sys.argv[1] if __name__ == "__main__" else ""
SESSION = "conversation"


class BrokenError(RuntimeError):
    """What goes wrong in these runs."""


def ids(kind):
    """Return the ids of a run."""
    return {"trace_id": f"{kind}-{PREFIX}", "session_id": f"{SESSION}-{PREFIX}", "user_id": "ana"}


def broken(*_, **__):
    raise BrokenError("it broke")


def success():
    with tracereel.traced_pipeline("booking", **ids("success")):
        with tracereel.traced_agent("parser"), tracereel.traced_llm(model="gpt-5"):
            pass
        with tracereel.traced_agent("writer"), tracereel.traced_tool("calendar"):
            pass


def agent_alone():
    with tracereel.traced_agent("lonely", **ids("agent_alone")):
        pass


def two_agents():
    """Run two agents without a pipeline; the second fails."""
    with tracereel.traced_agent("first", **ids("two_agents")):
        pass
    with contextlib.suppress(BrokenError), tracereel.traced_agent("second", **ids("two_agents")):
        broken()


def failure():
    with tracereel.traced_pipeline("booking", **ids("failure")):
        tracereel.traced_agent("parser")(broken)()


def pipeline_raises():
    with tracereel.traced_pipeline("booking", **ids("pipeline_raises")):
        broken()


def tool_raises():
    with tracereel.traced_pipeline("booking", **ids("tool_raises")):
        tracereel.traced_tool("calendar")(broken)()


def tool_handled():
    with tracereel.traced_agent("careful", **ids("tool_handled")), contextlib.suppress(BrokenError):
        tracereel.traced_tool("calendar")(broken)()


def retried():
    left = [1]

    @tracereel.traced_agent("parser")
    @tracereel.retry(attempts=3, sleep=lambda _: None)
    def parse():
        if left and left.pop():
            broken()

    with tracereel.traced_pipeline("booking", **ids("retried")):
        parse()


def exhausted():
    parse = tracereel.retry(attempts=2, sleep=lambda _: None)(
        tracereel.traced_agent("parser")(broken)
    )
    with tracereel.traced_pipeline("booking", **ids("exhausted")):
        parse()


def replaced():
    parse = tracereel.fallback(to=tracereel.traced_agent("regex")(lambda: "found"))(
        tracereel.traced_agent("parser")(broken)
    )
    with tracereel.traced_pipeline("booking", **ids("replaced")):
        parse()


def cancelled():
    async def wait():
        with (
            tracereel.traced_pipeline("booking", **ids("cancelled")),
            tracereel.traced_agent("slow"),
        ):
            await asyncio.Event().wait()

    async def main():
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await waiting

    asyncio.run(main())


def nested():
    """Run an agent as a run of its own, which fails, inside of another."""
    with tracereel.traced_pipeline("booking", **ids("nested")), contextlib.suppress(BrokenError):
        tracereel.traced_agent("helper", **ids("child"))(broken)()


def bare_model_call():
    tracereel.traced_llm(provider="openai", model="gpt-5", **ids("bare_model_call"))(lambda: "hi")()


def bare_tool():
    tracereel.traced_tool("calendar", **ids("bare_tool"))(lambda: "free")()


def bare_tool_fails():
    tracereel.traced_tool("calendar", **ids("bare_tool_fails"))(broken)()


def bare_step():
    tracereel.traced_step("normalize", **ids("bare_step"))(lambda: "x")()


def bare_retrieval():
    tracereel.traced_retrieval("handbook", **ids("bare_retrieval"))(lambda: ["page 1"])()


KINDS = (
    *(success, agent_alone, two_agents, failure, pipeline_raises, tool_raises, tool_handled),
    *(retried, exhausted, replaced, cancelled, nested, bare_model_call, bare_tool),
    *(bare_tool_fails, bare_step, bare_retrieval),
)
"""One run each; `nested` has a second one, `child`."""

if __name__ == "__main__":
    for kind in KINDS:
        with contextlib.suppress(BrokenError, asyncio.CancelledError):
            kind()
    assert tracereel.flush(30).spooled == 0
