"""What a wrapped client costs more than a bare one, against a stand-in for the provider's server.

    python bench/providers.py [--calls 400] [--chunks 2000] [--rounds 5] [--only anthropic]

The stand-in is a process of its own; bare and wrapped calls take turns, in turned order, so that a slow
moment of the machine meets both, and the figure is the median of the differences between neighbours:
wall time of the calling thread, its CPU, and the CPU of all threads of the process, so that work moved
to another thread is seen. The figure of a chunk is that of a whole stream over its chunks: the price of
the call, spread, is in it. Goals, for the wall time: 100 µs a call, 5 µs a streamed chunk.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

MESSAGES = [
    {"role": "user", "content": "What is the weather like in Lima, and what should I wear?"}
]
CALL_GOAL, CHUNK_GOAL = 100.0, 5.0


def clients(url: str) -> dict[str, tuple[Any, Any, Callable[..., Any]]]:
    """Provider → a bare client, a wrapped one, and what to call."""
    import anthropic
    import openai
    from google import genai
    from google.genai import types

    from tracereel.integrations import anthropic as ours_anthropic
    from tracereel.integrations import google as ours_google
    from tracereel.integrations import openai as ours_openai

    def made_anthropic() -> Any:
        return anthropic.Anthropic(api_key="k", base_url=url)

    def made_openai() -> Any:
        return openai.OpenAI(api_key="k", base_url=f"{url}/v1")

    def made_google() -> Any:
        return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))

    def ask_anthropic(client: Any, *, stream: bool) -> Any:
        return client.messages.create(
            model="bench", max_tokens=100, messages=MESSAGES, stream=stream
        )

    def ask_openai(client: Any, *, stream: bool) -> Any:
        return client.chat.completions.create(model="bench", messages=MESSAGES, stream=stream)

    def ask_responses(client: Any, *, stream: bool) -> Any:
        return client.responses.create(model="bench", input=MESSAGES, stream=stream)

    def ask_google(client: Any, *, stream: bool) -> Any:
        models = client.models
        ask = models.generate_content_stream if stream else models.generate_content
        return ask(model="bench", contents=MESSAGES[0]["content"])

    return {
        "anthropic": (made_anthropic(), ours_anthropic.wrap(made_anthropic()), ask_anthropic),
        "openai chat": (made_openai(), ours_openai.wrap(made_openai()), ask_openai),
        "openai responses": (made_openai(), ours_openai.wrap(made_openai()), ask_responses),
        "google": (made_google(), ours_google.wrap(made_google()), ask_google),
    }


def once(ask: Callable[..., Any], client: Any, *, stream: bool) -> tuple[float, float, float, int]:
    """One call: wall µs, CPU µs of this thread and of all, chunks."""
    everywhere = time.process_time_ns()
    began, worked = time.perf_counter_ns(), time.thread_time_ns()
    answer = ask(client, stream=stream)
    chunks = sum(1 for _ in answer) if stream else 0
    wall, cpu = time.perf_counter_ns() - began, time.thread_time_ns() - worked
    return wall / 1000, cpu / 1000, (time.process_time_ns() - everywhere) / 1000, chunks


def compare(
    ask: Callable[..., Any], bare: Any, wrapped: Any, *, calls: int, stream: bool
) -> dict[str, float]:
    """Medians of the difference between neighbours, by wall time and by CPU."""
    for client in (bare, wrapped) * 10:
        once(ask, client, stream=stream)
    walls, cpus, all_cpus, base, chunks = [], [], [], [], 0
    for number in range(calls):
        order = (bare, wrapped) if number % 2 else (wrapped, bare)
        figures = {id(client): once(ask, client, stream=stream) for client in order}
        one, other = figures[id(bare)], figures[id(wrapped)]
        walls.append(other[0] - one[0])
        cpus.append(other[1] - one[1])
        all_cpus.append(other[2] - one[2])
        base.append(one[0])
        chunks = other[3]
    return {
        "wall": statistics.median(walls),
        "cpu": statistics.median(cpus),
        # A mean: what another thread does falls into some calls only.
        "all": statistics.fmean(all_cpus),
        "bare": statistics.median(base),
        "chunks": chunks,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="this client alone")
    parser.add_argument("--profile", help="print a profile of wrapped calls of this client instead")
    args = parser.parse_args()
    import tracereel

    spool = tempfile.TemporaryDirectory()
    # Nobody takes the events away: what is measured is the call, not the delivery.
    tracereel.configure(endpoint="http://127.0.0.1:9", spool_dir=spool.name, service="bench")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.clients.standin", "--chunks", str(args.chunks)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdin is not None
    url = server.stdout.readline().strip()
    if args.profile:
        profile(clients(url)[args.profile], args.calls)
    else:
        table(url, args.calls, args.rounds, args.only)
    tracereel.shutdown(0)
    server.stdin.close()
    server.wait()
    spool.cleanup()


def profile(of: tuple[Any, Any, Callable[..., Any]], calls: int) -> None:
    """Where our time goes."""
    import cProfile
    import pstats

    _, wrapped, ask = of
    for stream in (False, True):
        profiler = cProfile.Profile()
        for _ in range(20):
            once(ask, wrapped, stream=stream)
        profiler.enable()
        for _ in range(calls // 20 if stream else calls):
            once(ask, wrapped, stream=stream)
        profiler.disable()
        pstats.Stats(profiler).sort_stats("cumtime").print_stats("tracereel", 45)


def table(url: str, calls: int, rounds: int, only: str | None) -> None:
    """Every client, whole and streamed."""
    print(f"{os.cpu_count()} cores; µs more than bare, medians; {calls} calls, {rounds} rounds")
    print(f"{'':28}{'bare wall':>10}{'wall':>10}{'CPU':>10}{'all CPU':>10}{'goal':>8}")
    for name, (bare, wrapped, ask) in clients(url).items():
        if only not in (None, name):
            continue
        found = [compare(ask, bare, wrapped, calls=calls, stream=False) for _ in range(rounds)]
        row(name, "a call", found, CALL_GOAL)
        few = max(3, calls // 40)
        found = [compare(ask, bare, wrapped, calls=few, stream=True) for _ in range(rounds)]
        for each in found:
            for key in ("wall", "cpu", "all", "bare"):
                each[key] /= max(each["chunks"], 1)
        row(name, "a chunk", found, CHUNK_GOAL)


def row(name: str, kind: str, found: list[dict[str, float]], goal: float) -> None:
    """One line: medians of the rounds."""
    middle = {key: statistics.median(each[key] for each in found) for key in found[0]}
    figures = "".join(f"{middle[key]:10.1f}" for key in ("bare", "wall", "cpu", "all"))
    print(f"{name:18}{kind:10}{figures}{goal:8.0f}", flush=True)


if __name__ == "__main__":
    main()
