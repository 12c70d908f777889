"""Load program: runs the demo pipeline and every other metric source until stdin ends."""

import os
import random
import sys
import threading
import time

import tracereel
from tracereel import current_execution
from tracereel.demo.run import run_demo
from tracereel.resilience import fallback, fixed_delay, retry

NO_DELAY = fixed_delay(0)
chance = random.Random(7)


@tracereel.traced_llm("gpt-5-mini", provider="openai")
def stream(prompt):
    """Stream a response of a model whose price is passed by the caller."""
    current_execution().set(
        llm_prompt_tokens=120, llm_completion_tokens=40, llm_tokens_used=160, llm_cost_usd=0.002
    )
    time.sleep(0.001)
    yield "Dr. "
    yield "Pérez"


@tracereel.traced_llm("house-model", provider="ours")
def ask_unpriced(prompt):
    current_execution().set(llm_prompt_tokens=10, llm_completion_tokens=5, llm_tokens_used=15)
    if chance.random() < 0.3:
        raise TimeoutError("no answer")
    return "yes"


@tracereel.traced_tool("calendar")
def look_up(day):
    return [day]


def by_rule(prompt):
    current_execution().set(confidence=0.5)
    return "by rule"


@tracereel.traced_agent("research_agent", version="1.0.0")
@fallback(to=by_rule)
@retry(attempts=2, on=TimeoutError, strategy=NO_DELAY)
def research(prompt):
    "".join(stream(prompt))
    look_up("tomorrow")
    if chance.random() < 0.5:
        raise TimeoutError("the model is away")
    current_execution().set(confidence=0.8)
    return "found"


@tracereel.traced_agent("strict_agent", version="1.0.0")
def check(prompt):
    return ask_unpriced(prompt)


@tracereel.traced_pipeline("research", agents=["research_agent", "strict_agent"])
def pipeline(user_prompt):
    research(user_prompt)
    return check(user_prompt)


def main():
    tracereel.configure(
        endpoint=os.environ["COLLECTOR"], api_key=os.environ["KEY"], service="agent-load"
    )
    server = tracereel.start_metrics_server(port=0)
    print(server.port, flush=True)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    left = 200_000
    for _ in run_demo(runs=None, interval=0.02, seed=3, sleep=lambda s: time.sleep(s / 10)):
        left = max(left - 50, 0)
        tracereel.set_tokens_remaining("openai", left)
        try:
            pipeline("who has time tomorrow?")
        except TimeoutError:
            pass
        if ended.is_set():
            break
    tracereel.shutdown(2)


if __name__ == "__main__":
    main()
