"""Measure the overhead of a wrapped client over a bare one, with a fake server.

    python bench/providers.py [--calls 400] [--chunks 2000] [--rounds 5] [--wait 20] [--only anthropic]

The fake server and a sink for the events are separate processes. In one process, bare, wrapped and
hand-traced calls alternate, twenty calls at a time and in alternating order, so that load on the machine
affects all of them alike. The values are medians of the differences between neighbours, per call: wall
time and CPU time of the calling thread, and CPU time of all threads, delivery included. The server
responds after 20 ms (`--wait`), which is faster than any model, and at once. `by hand` is the bare
client in a function under `@traced_llm` that sets the tokens: the cost of one event in the SDK. The
wrapper also records the messages of the response. A response is one text; with `--rich` those of
Anthropic and Google have tools, thoughts and sources, and as many events. The value of a chunk is that
of a whole stream divided by its chunks, so it includes a part of the call. Goals for the wall time:
100 µs per call, 5 µs per streamed chunk. `bench/provider_work.py` measures the same without client and
server.
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
TOGETHER = 20
"""Calls of one turn."""
Told = tuple[str, int, int]
"""Text, input tokens, output tokens."""


def clients(url: str) -> dict[str, tuple[Any, Any, Callable[..., Any], Callable[[Any], Told]]]:
    """Return bare client, wrapped client, call and response reader of each provider."""
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

    def told_chat(answer: Any) -> Told:
        usage = answer.usage
        return answer.choices[0].message.content, usage.prompt_tokens, usage.completion_tokens

    def told_responses(answer: Any) -> Told:
        return answer.output_text, answer.usage.input_tokens, answer.usage.output_tokens

    def told_anthropic(answer: Any) -> Told:
        return answer.content[0].text, answer.usage.input_tokens, answer.usage.output_tokens

    def told_google(answer: Any) -> Told:
        usage = answer.usage_metadata
        return answer.text, usage.prompt_token_count, usage.candidates_token_count

    ours_a, ours_o = ours_anthropic.wrap(made_anthropic()), ours_openai.wrap(made_openai())
    return {
        "anthropic": (made_anthropic(), ours_a, ask_anthropic, told_anthropic),
        "openai chat": (made_openai(), ours_o, ask_openai, told_chat),
        "openai responses": (made_openai(), ours_o, ask_responses, told_responses),
        "google": (made_google(), ours_google.wrap(made_google()), ask_google, told_google),
    }


def by_hand(provider: str, ask: Callable[..., Any], told: Callable[[Any], Told]) -> Any:
    """Return the same request in a function under `@traced_llm`."""
    from tracereel import current_execution, traced_llm

    def asked(client: Any, *, stream: bool) -> Any:
        @traced_llm("bench", provider=provider)
        def call(messages: Any) -> str:
            del messages
            text, prompt, completion = told(ask(client, stream=stream))
            current_execution().set(llm_prompt_tokens=prompt, llm_completion_tokens=completion)
            return text

        return call

    calls: dict[int, Any] = {}

    def ask_traced(client: Any, *, stream: bool) -> Any:
        found = calls.get(id(client))
        if found is None:
            found = calls[id(client)] = asked(client, stream=stream)
        return found(messages=MESSAGES)

    return ask_traced


Figures = dict[str, dict[str, float]]


def turn(
    ask: Callable[..., Any], client: Any, *, stream: bool, calls: int = 1
) -> tuple[float, float, float, int]:
    """Make some calls; return wall and CPU µs per call, process CPU µs, and chunks."""
    everywhere = time.process_time_ns()
    began, worked = time.perf_counter_ns(), time.thread_time_ns()
    chunks = 0
    for _ in range(calls):
        answer = ask(client, stream=stream)
        chunks = sum(1 for _ in answer) if stream else 0
    wall, cpu = time.perf_counter_ns() - began, time.thread_time_ns() - worked
    each = 1000 * calls
    return wall / each, cpu / each, (time.process_time_ns() - everywhere) / each, chunks


Contender = tuple[Callable[..., Any], Any]


def compare(bare: Contender, others: dict[str, Contender], *, calls: int, stream: bool) -> Figures:
    """Return the median difference of each contender to its bare neighbour."""
    contenders = {"bare": bare, **others}
    for ask, client in list(contenders.values()) * 10:
        turn(ask, client, stream=stream)
    seen: list[dict[str, tuple[float, float, float, int]]] = []
    together = 1 if stream else TOGETHER
    for number in range(max(3, calls // together)):
        names = list(contenders) if number % 2 else list(contenders)[::-1]
        taken = {}
        for name in names:
            ask, client = contenders[name]
            taken[name] = turn(ask, client, stream=stream, calls=together)
        seen.append(taken)
    return {
        name: {
            "wall": statistics.median(each[name][0] - each["bare"][0] for each in seen),
            "cpu": statistics.median(each[name][1] - each["bare"][1] for each in seen),
            # Mean, because work of other threads falls into few calls.
            "all": statistics.fmean(each[name][2] - each["bare"][2] for each in seen),
            "bare": statistics.median(each["bare"][0] for each in seen),
            "chunks": seen[-1][name][3],
        }
        for name in others
    }


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wait", type=float, default=20.0, help="ms that a slow answer takes")
    parser.add_argument("--only", help="this client alone")
    parser.add_argument(
        "--rich", action="store_true", help="answers with thoughts, tools, sources: several events"
    )
    parser.add_argument("--profile", help="print a profile of wrapped calls of this client instead")
    args = parser.parse_args()
    import tracereel

    spool = tempfile.TemporaryDirectory()
    rich = ("--rich",) if args.rich else ()
    standin = ("-m", "tests.sdk.clients.standin", "--chunks", str(args.chunks), *rich)
    server, url = beside(*standin)
    slow_server, slow_url = beside(*standin, "--wait", str(args.wait))
    sink, collector = beside("bench/sdk_overhead.py", "--sink")
    tracereel.configure(endpoint=collector, spool_dir=spool.name, service="bench")
    if args.profile:
        profile(clients(url)[args.profile], args.calls)
    else:
        table(url, slow_url, args)
    left = tracereel.shutdown(20).spooled
    print(f"events that were not delivered: {left}")
    for process in (server, slow_server, sink):
        process.communicate()
    spool.cleanup()


def beside(*command: str) -> tuple["subprocess.Popen[str]", str]:
    """Start a server process that ends with its input; return it and its address."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def profile(of: tuple[Any, Any, Callable[..., Any], Any], calls: int) -> None:
    """Print a profile of wrapped calls."""
    import cProfile
    import pstats

    _, wrapped, ask, _ = of
    for stream in (False, True):
        profiler = cProfile.Profile()
        for _ in range(20):
            turn(ask, wrapped, stream=stream)
        profiler.enable()
        for _ in range(calls // 20 if stream else calls):
            turn(ask, wrapped, stream=stream)
        profiler.disable()
        pstats.Stats(profiler).sort_stats("cumtime").print_stats("tracereel", 45)


def table(url: str, slow_url: str, args: argparse.Namespace) -> None:
    """Measure every client, with whole and streamed responses."""
    calls, rounds = args.calls, args.rounds
    print(f"{os.cpu_count()} cores; µs more than bare, medians; {calls} calls, {rounds} rounds")
    print(f"{'':34}{'bare wall':>10}{'wall':>10}{'CPU':>10}{'all CPU':>10}{'goal':>8}")
    slow = clients(slow_url)
    for name, (bare, wrapped, ask, told) in clients(url).items():
        if args.only not in (None, name):
            continue
        one = (ask, bare)
        for (plain, ours, *_), how in (
            (slow[name], f"{args.wait:g} ms"),
            ((bare, wrapped), "at once"),
        ):
            others = {"wrapped": (ask, ours), "by hand": (by_hand(name, ask, told), plain)}
            found = [
                compare((ask, plain), others, calls=calls, stream=False) for _ in range(rounds)
            ]
            row(name, f"{how}, by hand", [each["by hand"] for each in found], None)
            row(name, f"{how}, wrapped", [each["wrapped"] for each in found], CALL_GOAL)
        few, streamed = max(3, calls // 40), {"wrapped": (ask, wrapped)}
        found = [compare(one, streamed, calls=few, stream=True) for _ in range(rounds)]
        for each in found:
            for key in ("wall", "cpu", "all", "bare"):
                each["wrapped"][key] /= max(each["wrapped"]["chunks"], 1)
        row(name, "a chunk", [each["wrapped"] for each in found], CHUNK_GOAL)


def row(name: str, kind: str, found: list[dict[str, float]], goal: float | None) -> None:
    """Print one row with the medians of the rounds."""
    middle = {key: statistics.median(each[key] for each in found) for key in found[0]}
    figures = "".join(f"{middle[key]:10.1f}" for key in ("bare", "wall", "cpu", "all"))
    print(f"{name:18}{kind:16}{figures}{goal or '':>8}", flush=True)


if __name__ == "__main__":
    main()
