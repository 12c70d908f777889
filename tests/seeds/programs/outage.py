"""A program whose collector is away: it works, and its events wait on disk."""

import json
import sys

import tracereel


@tracereel.traced_tool("find_orders")
def find_orders(customer: str) -> str:
    return f"{customer}: order 1042"


@tracereel.traced_agent("orders_agent", trace_id=sys.argv[1])
def answer(prompt: str) -> str:
    return find_orders(prompt)


tracereel.configure()
result = answer("Contoso")
waiting = tracereel.shutdown(0.0)
print(json.dumps({"result": result, "spooled": waiting.spooled, "dropped": waiting.dropped}))
