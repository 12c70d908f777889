"""Measure the cost of recording a response, without client and server.

    python bench/provider_work.py [--calls 2000] [--chunks 2000] [--rounds 15]

Prints the CPU time of the calling thread, median and minimum of the rounds. A call is begun, answered
with one text and closed. For comparison, `by hand` is an equal function under `@traced_llm`: the cost
of the SDK itself; the rest is the wrapper's. A chunk is one frame of a stream, passed through the hooks
one at a time, minus reading the same stream without them. `bench/providers.py` measures the same with
real requests, where caches are cold and everything takes two to three times as long. Goal: 5 µs per
chunk. The last column counts bytecode instructions, which do not depend on the machine's load.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

TEXT = "It is sunny in Lima; a light jacket will do."
ASKED = [{"role": "user", "content": "What is the weather like in Lima, and what should I wear?"}]
ANSWERS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "bench-1",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 21, "output_tokens": 14, "cache_read_input_tokens": 0},
    },
    "openai chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "bench-1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 21, "completion_tokens": 14, "total_tokens": 35},
    },
    "openai responses": {
        "id": "resp_1",
        "object": "response",
        "model": "bench-1",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "m1",
                "role": "assistant",
                "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 21, "output_tokens": 14, "total_tokens": 35},
    },
    "google": {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": TEXT}]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {"promptTokenCount": 21, "candidatesTokenCount": 14},
        "modelVersion": "bench-1",
        "responseId": "r1",
    },
}
PATHS = {
    "anthropic": "/v1/messages",
    "openai chat": "/v1/chat/completions",
    "openai responses": "/v1/responses",
    "google": "/v1beta/models/bench:streamGenerateContent",
}


class Response:
    """Fake of an httpx response, with the members that the hooks use."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self.pieces = pieces

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Yield the pieces."""
        del chunk_size
        yield from self.pieces

    def close(self) -> None:
        """Do nothing."""

    async def aiter_bytes(self, chunk_size: int | None = None) -> Any:
        """Yield the pieces to asynchronous clients."""
        del chunk_size
        for piece in self.pieces:
            yield piece

    async def aclose(self) -> None:
        """Do nothing."""


def bodies() -> dict[str, Any]:
    """Return the dialect and a request for each provider."""
    from tracereel.integrations import _dialects as dialects

    google = [{"role": "user", "parts": [{"text": ASKED[0]["content"]}]}]
    return {
        "anthropic": (dialects.ANTHROPIC, {"model": "bench", "messages": ASKED}),
        "openai chat": (dialects.CHAT, {"model": "bench", "messages": ASKED}),
        "openai responses": (dialects.RESPONSES, {"model": "bench", "input": ASKED}),
        "google": (dialects.GOOGLE, {"contents": google}),
    }


def begun(name: str) -> Any:
    """Return a function that begins a call."""
    from tracereel.integrations import _model_call
    from tracereel.integrations._tool_memory import ToolMemory

    dialect, body = bodies()[name]
    memory = ToolMemory()
    return lambda: _model_call.begin(dialect, body, model="bench", memory=memory)


def of_calls(name: str) -> Callable[[], None]:
    """Return a function that makes one complete call."""
    from tracereel.integrations._bodies import decoded

    begin, answer = begun(name), msgspec.json.encode(ANSWERS[name])

    def call() -> None:
        work = begin()
        work.answered(decoded(answer))
        work.detach()

    return call


def of_conversation(turns: int) -> Callable[[], None]:
    """Return a call with a conversation of many turns of 300 characters each."""
    from tracereel.integrations import _dialects, _model_call
    from tracereel.integrations._bodies import decoded
    from tracereel.integrations._tool_memory import ToolMemory

    roles = ("user", "assistant")
    said = ASKED[0]["content"] * 5
    messages = [
        {"role": roles[turn % 2], "content": [{"type": "text", "text": said}]}
        for turn in range(turns)
    ]
    body = {"model": "bench", "system": "Be brief.\nBe kind.", "messages": messages}
    memory = ToolMemory()
    answer = msgspec.json.encode(ANSWERS["anthropic"])

    def call() -> None:
        work: Any = _model_call.begin(_dialects.ANTHROPIC, body, model="bench", memory=memory)
        work.answered(decoded(answer))
        work.detach()

    return call


def by_hand() -> Callable[[], Any]:
    """Return the same call under `@traced_llm`."""
    from tracereel import current_execution, traced_llm

    @traced_llm("bench", provider="anthropic")
    def ask(messages: Any) -> str:
        del messages
        current_execution().set(llm_prompt_tokens=21, llm_completion_tokens=14)
        return TEXT

    return lambda: ask(messages=ASKED)


def of_streams(name: str, chunks: int) -> tuple[Callable[[], Iterable[Any]], list[bytes]]:
    """Return a stream of many text pieces through the hooks, and the pieces."""
    from tests.sdk.clients.standin import long_frames
    from tracereel.integrations import _bodies
    from tracereel.providers.streams import adapter_for

    dialect, request = bodies()[name]
    pieces = long_frames({**request, "stream": True}, PATHS[name], chunks)
    begin = begun(name)

    def adapt(clock: Callable[[], float]) -> Any:
        return adapter_for(dialect.provider, model="bench", keep_raw=False, clock=clock)

    def watched() -> Iterable[Any]:
        call, response = begin(), Response(pieces)
        _bodies.watch(response, call, adapt)
        call.detach()
        return response.iter_bytes()

    def handed() -> Iterator[bytes]:  # like the chunks of Google's client
        call = begin()
        body = _bodies.ChunkBody(call, adapt)
        call.detach()
        taken, clock = body.taken, time.perf_counter_ns
        for piece in pieces:
            taken.append((clock(), piece))
            if len(taken) >= _bodies.MAX_WAITING:
                body.look()
            yield piece
        body.exhausted()

    if name == "google":
        pieces = [piece.partition(b"data: ")[2].strip() for piece in pieces]
        return handed, pieces
    return watched, pieces


def of_agents(chunks: int) -> tuple[Callable[[], Iterable[Any]], list[str]]:
    """Return the frames of an SSE agent under `traced_sse`."""
    from tracereel.integrations.sse import traced_sse

    frames = [f'event: token\ndata: {{"text":"word{number} "}}\n\n' for number in range(chunks)]
    frames.append('event: done\ndata: {"threadId":"t1"}\n\n')

    @traced_sse("bench")
    def answer() -> Iterator[str]:
        yield from frames

    return answer, frames


def cpu(action: Callable[[], Any]) -> float:
    """Return the CPU time of this thread in µs."""
    began = time.thread_time_ns()
    action()
    return (time.thread_time_ns() - began) / 1000


def instructions(action: Callable[[], Any]) -> int:
    """Count the bytecode instructions of an action."""
    count = 0

    def follow(frame: Any, event: str, _arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return follow

    sys.settrace(follow)
    try:
        action()
    finally:
        sys.settrace(None)
    return count


def exhausted(stream: Iterable[Any]) -> None:
    """Read a stream to its end."""
    for _ in stream:
        pass


def row(name: str, kind: str, figures: list[float], steps: float) -> None:
    """Print one row."""
    middle = statistics.median(figures)
    print(f"{name:18}{kind:10}{middle:10.1f}{min(figures):10.1f}{steps:14,.0f}", flush=True)


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    import tracereel

    per_round = max(1, args.calls // args.rounds)

    def many(action: Callable[[], Any]) -> Callable[[], None]:
        def repeat() -> None:
            for _ in range(per_round):
                action()

        return repeat

    with tempfile.TemporaryDirectory() as spool:
        tracereel.configure(endpoint="http://127.0.0.1:9", spool_dir=spool, service="bench")
        print(f"{'µs':28}{'median':>10}{'smallest':>10}{'instructions':>14}")
        calls = {name: of_calls(name) for name in ANSWERS} | {"by hand": by_hand()}
        calls |= {f"of {turns} turns": of_conversation(turns) for turns in (11, 21, 41)}
        figures: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(args.rounds + 1):
            for name, call in calls.items():
                figures[name].append(cpu(many(call)) / per_round)
        for name, call in calls.items():
            row(name, "a call", figures[name][1:], instructions(call))
        streams: dict[str, Any] = {name: of_streams(name, args.chunks) for name in ANSWERS}
        for name, (recorded, bare) in {**streams, "SSE agent": of_agents(args.chunks)}.items():
            exhausted(recorded())
            spent = []
            for _ in range(args.rounds):
                ours = cpu(lambda opened=recorded: exhausted(opened()))  # type: ignore[misc]
                theirs = cpu(lambda pieces=bare: exhausted(iter(pieces)))  # type: ignore[misc]
                spent.append((ours - theirs) / len(bare))
            steps = instructions(lambda opened=recorded: exhausted(opened()))  # type: ignore[misc]
            row(name, "a chunk", spent, steps / len(bare))
        tracereel.shutdown(0)


if __name__ == "__main__":
    main()
