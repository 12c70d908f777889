"""A package that only decorates its functions: what it does not declare must be found out."""

import json
from dataclasses import dataclass

from pydantic import BaseModel

from tracereel import (
    fallback,
    record_decision,
    retry,
    traced_agent,
    traced_decision,
    traced_pipeline,
)
from tracereel.resilience import fixed_delay
from tracereel.testing import EventRecorder

__version__ = "2.3.4"
QUESTION = "When is the next free slot?"


@dataclass
class Found:
    """Result with attributes."""

    slot: str = "10:00"
    confidence: float = 0.9
    decision_type: str = "slot_choice"
    reasoning: str = "the first free one"


class Answer(BaseModel):
    """Result with pydantic fields."""

    confidence: float = 0.7
    decision_type: str = "slot_choice"
    reasoning: str = "the only one"


@traced_agent("attribute_agent")
def by_attribute(question: str) -> Found:
    return Found()


@traced_agent("key_agent")
def by_key(question: str) -> dict:
    return {"confidence": 0.8, "decision_type": "slot_choice", "reasoning": "it was asked for"}


@traced_agent("pydantic_agent")
def by_pydantic(question: str) -> Answer:
    return Answer()


@traced_agent("deciding_agent")
def by_decision(question: str) -> str:
    record_decision("first_choice", reasoning="a guess", confidence=0.2)
    record_decision("slot_choice", reasoning="two are free", confidence=0.6)
    return "10:00"


@traced_decision("rule_check")
def check_rules(slot: str, day: str = "Monday") -> str:
    return "accept"


@traced_agent("silent_agent")
def silent() -> None:
    check_rules("10:00")


@traced_agent("broken_agent")
def broken(question: str) -> str:
    raise RuntimeError("unexpected")


def regex_parser(question: str) -> str:
    raise ValueError("no match")


@traced_agent("guarded_agent")
@fallback(to=regex_parser)
def guarded(question: str) -> str:
    raise RuntimeError("unexpected")


@traced_agent("backup_agent")
def backup(question: str) -> str:
    return "11:00"


@fallback(to=backup)
@traced_agent("primary_agent")
def primary(question: str) -> str:
    raise ConnectionError("the model is away")


answers = iter([ConnectionError("no route"), "12:00"])


@traced_agent("retried_agent")
@retry(2, strategy=fixed_delay(0))
def retried(question: str) -> str:
    answer = next(answers)
    if isinstance(answer, Exception):
        raise answer
    return answer


@traced_pipeline("slot_search")
def search(question: str) -> str:
    for agent in (by_attribute, by_key, by_pydantic, by_decision, primary, retried):
        agent(question)
    silent()
    for agent in (broken, guarded):
        try:
            agent(question)
        except RuntimeError:
            pass
    return "10:00"


def main() -> None:
    """Print the events of a run, one per line."""
    with EventRecorder() as events:
        search(QUESTION)
    for event in events:
        print(json.dumps(event))


if __name__ == "__main__":
    main()
