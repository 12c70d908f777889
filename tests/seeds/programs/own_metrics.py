"""A program that defines the contract's metrics itself, after its first traced call."""

import prometheus_client
from prometheus_client import REGISTRY, Counter, Gauge, Histogram

from tracereel import current_execution, traced_agent


@traced_agent("parsing_agent")
def parse(prompt: str) -> str:
    current_execution().set(confidence=0.9)
    return prompt


parse("before")

agent_executions_total = Counter(
    "agent_executions_total", "Executions of agents", ["agent_name", "status"]
)
agent_execution_duration_seconds = Histogram(
    "agent_execution_duration_seconds",
    "Duration of executions",
    ["agent_name"],
    buckets=[0.1, 0.5, 1, 2, 5, 10, 30, 60],
)
agent_confidence = Gauge("agent_confidence", "Confidence of agents", ["agent_name"])

parse("after")
agent_executions_total.labels("other_agent", "success").inc()
prometheus_client.generate_latest(REGISTRY)
for agent, expected in (("parsing_agent", 2), ("other_agent", 1)):
    labels = {"agent_name": agent, "status": "success"}
    value = REGISTRY.get_sample_value("agent_executions_total", labels)
    assert value == expected, f"{agent}: {value}"
