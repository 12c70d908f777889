"""Agents of a program whose log lines are read; `logs.py` runs them."""

from tracereel import current_execution, traced_agent


@traced_agent("parsing_agent")
def parse(prompt: str) -> str:
    current_execution().set(confidence=0.92)
    return prompt


@traced_agent("broken_agent")
def broken(prompt: str) -> str:
    raise RuntimeError("unexpected")


def run() -> None:
    """Run both agents."""
    parse("tomorrow at ten")
    try:
        broken("tomorrow at ten")
    except RuntimeError:
        pass
