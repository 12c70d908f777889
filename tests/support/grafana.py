"""Grafana's preparation of a dashboard: finds queries, fills in variables and macros."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent.parent / "dashboards"
BOARDS = {
    file.stem: json.loads(file.read_text("utf-8"))
    for file in sorted((FOLDER / "json").glob("*.json"))
}


@dataclass(frozen=True)
class Query:
    """One query of one panel."""

    board: str
    panel: dict
    target: dict

    @property
    def source(self):
        return self.target["datasource"]["type"]

    def __str__(self):
        return (
            f"{self.board.removeprefix('tracereel-')}:{self.panel['title']}:{self.target['refId']}"
        )


QUERIES = [
    Query(name, panel, target)
    for name, board in BOARDS.items()
    for panel in board["panels"]
    for target in panel.get("targets", [])
]


def of(source):
    """Return the queries to one kind of data source."""
    return [query for query in QUERIES if query.source == source]


def promql(text, board):
    """Return an expression as Prometheus gets it, with every variable at "All"."""
    for variable in BOARDS[board]["templating"]["list"]:
        text = text.replace(f'${variable["name"]}"', f'{variable.get("allValue")}"')
    text = text.replace("$__rate_interval", "20s").replace("$__range", "60s")
    assert "$" not in re.sub(r'"\$1"', "", text), f"a variable is not known: {text}"
    return text


def sql(text, *, since, until, values):
    """Return a statement as the ClickHouse plugin sends it; `values` are lists by variable."""
    first, last = f"toDateTime({int(since)})", f"toDateTime({int(until)})"
    text = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 >= {first} AND \1 <= {last}", text)
    text = re.sub(
        r"\$__timeInterval\((\w+)\)",
        r"toStartOfInterval(toDateTime(\1), INTERVAL 5 second)",
        text,
    )
    text = text.replace("$__fromTime", first).replace("$__toTime", last)

    def filled(found):
        quoted = [each.replace("'", "''") for each in values[found.group(1)]]
        return ",".join(f"'{each}'" for each in quoted)

    text = re.sub(r"\$\{(\w+):sqlstring\}", filled, text)
    assert "$" not in text, f"a variable is not known: {text}"
    return text
