"""Shop before a refactor that renames and moves everything."""

from dataclasses import dataclass
from enum import Enum

from pydantic import BaseModel

from tracereel import traced_agent, traced_pipeline, traced_retrieval, traced_step, traced_tool

ran: list[str] = []


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass(frozen=True)
class Order:
    """Order of a customer."""

    @dataclass(frozen=True)
    class Line:
        """Article of an order."""

        name: str
        size: Size

    lines: tuple[Line, ...]
    note: str = ""


class Price(BaseModel):
    """Price of an order."""

    total: float
    text: str = ""


class SoldOutError(Exception):
    """An article is gone."""


@traced_retrieval("find")
def find(line: Order.Line) -> list[str]:
    ran.append("find")
    if line.name == "tent":
        raise SoldOutError(line.name)
    return [line.name, line.size.value]


@traced_tool("price", effect="read")
def price(order: Order, found: list[list[str]]) -> Price:
    ran.append("price")
    return Price(total=len(found) * 2.5, text="of " + order.note)


@traced_agent("clerk")
def clerk(order: Order) -> Price:
    found = []
    with traced_step("look up"):
        for line in order.lines:
            try:
                found.append(find(line))
            except SoldOutError:
                found.append([])
    return price(order, found)


@traced_pipeline("shop")
def handle(order: Order) -> Price:
    return clerk(order)
