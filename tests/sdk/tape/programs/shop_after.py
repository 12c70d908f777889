"""Shop after the refactor."""

from dataclasses import dataclass
from enum import Enum

from pydantic import BaseModel

from tracereel import traced_agent, traced_pipeline, traced_retrieval, traced_step, traced_tool

ran: list[str] = []


class Extent(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass(frozen=True)
class Purchase:
    """Purchase of a customer."""

    @dataclass(frozen=True)
    class Line:
        """Article of an order."""

        name: str
        size: Extent

    lines: tuple[Line, ...]
    note: str = ""


class Amount(BaseModel):
    """Amount of an order."""

    total: float
    text: str = ""


class GoneError(Exception):
    """An article is gone."""


@traced_retrieval("search")
def search(line: Purchase.Line) -> list[str]:
    ran.append("search")
    if line.name == "tent":
        raise GoneError(line.name)
    return [line.name, line.size.value]


@traced_tool("amount", effect="read")
def amount(order: Purchase, found: list[list[str]]) -> Amount:
    ran.append("amount")
    return Amount(total=len(found) * 2.5, text="of " + order.note)


@traced_agent("assistant")
def assist(order: Purchase) -> Amount:
    found = []
    with traced_step("look"):
        for line in order.lines:
            try:
                found.append(search(line))
            except GoneError:
                found.append([])
    return amount(order, found)


@traced_pipeline("store")
def serve(order: Purchase) -> Amount:
    return assist(order)
