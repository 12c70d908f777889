"""Building blocks of dashboards: queries, panels, variables and the board layout."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

PROMETHEUS: Final = {"type": "prometheus", "uid": "tracereel-prometheus"}
CLICKHOUSE: Final = {"type": "grafana-clickhouse-datasource", "uid": "tracereel-clickhouse"}
JAEGER: Final = {"type": "jaeger", "uid": "tracereel-jaeger"}
"""Data sources, as named in `provisioning/datasources`."""

QUERIES: Final = Path(__file__).parent / "queries"
COLUMNS: Final = 24
WIDE: Final = 11
"""Panel width from which the legend fits beside the graph."""
GOOD, FAIR, BAD, PLAIN = "green", "orange", "red", "text"

Steps = Sequence[tuple[float | None, str]]
"""Thresholds: lowest value and colour; the first has no value."""

NO_STEPS: Final[Steps] = ((None, PLAIN),)


def rising(fair: float, bad: float) -> Steps:
    """Return thresholds of a value that should be small."""
    return ((None, GOOD), (fair, FAIR), (bad, BAD))


def falling(bad: float, fair: float) -> Steps:
    """Return thresholds of a value that should be large."""
    return ((None, BAD), (bad, FAIR), (fair, GOOD))


def prom(expr: str, legend: str = "", *, instant: bool = False, exemplars: bool = False) -> Json:
    """Return a Prometheus query."""
    made: Json = {"datasource": PROMETHEUS, "expr": expr, "legendFormat": legend or "__auto"}
    made |= {"instant": True, "range": False} if instant else {"instant": False, "range": True}
    return made | {"exemplar": exemplars}


def table_of(expr: str) -> Json:
    """Return a Prometheus query with a table as result."""
    return prom(expr, instant=True) | {"format": "table"}


def sql(name: str, *, over_time: bool = False) -> Json:
    """Return a ClickHouse query from `queries/`."""
    return {
        "datasource": CLICKHOUSE,
        "editorType": "sql",
        "queryType": "timeseries" if over_time else "table",
        "format": 0 if over_time else 1,
        "rawSql": (QUERIES / f"{name}.sql").read_text(encoding="utf-8").strip(),
    }


def trace(run: str) -> Json:
    """Return a query for the spans of a run; Jaeger's API accepts run ids."""
    return {"datasource": JAEGER, "query": run}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Panel of a dashboard; `width` is in 24ths of the row."""

    kind: str
    title: str
    about: str
    targets: Sequence[Json]
    unit: str = "short"
    steps: Steps = NO_STEPS
    width: int = 8
    height: int = 8
    options: Json = field(default_factory=dict)
    custom: Json = field(default_factory=dict)
    defaults: Json = field(default_factory=dict)
    overrides: Sequence[Json] = ()
    transformations: Sequence[Json] = ()

    def json(self, number: int, x: int, y: int) -> Json:
        """Return the panel in Grafana's JSON format."""
        sources = {target["datasource"]["uid"]: target["datasource"] for target in self.targets}
        source = (
            next(iter(sources.values()))
            if len(sources) == 1
            else {"type": "datasource", "uid": "-- Mixed --"}
        )
        steps = [{"value": value, "color": color} for value, color in self.steps]
        made: Json = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.about,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "datasource": source,
            "targets": [
                {"refId": chr(ord("A") + place), **target}
                for place, target in enumerate(self.targets)
            ],
            "fieldConfig": {
                "defaults": {
                    "unit": self.unit,
                    "color": {"mode": "thresholds" if len(steps) > 1 else "palette-classic"},
                    "thresholds": {"mode": "absolute", "steps": steps},
                    "custom": self.custom,
                    **self.defaults,
                },
                "overrides": list(self.overrides),
            },
            "options": self.options,
        }
        if self.transformations:
            made["transformations"] = list(self.transformations)
        return made


def stat(title: str, about: str, *targets: Json, **more: Any) -> Panel:
    """Return a single number, coloured by its thresholds; of several queries, one has a result."""
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "area",
        "textMode": "value",
    }
    return Panel(
        kind="stat", title=title, about=about, targets=targets,
        options=options, **{"width": 4, "height": 4} | more,
    )  # fmt: skip


def lines(
    title: str, about: str, *targets: Json, stacked: bool = False, bars: bool = False, **more: Any
) -> Panel:
    """Return a time series; thresholds are shown as lines."""
    custom: Json = {
        "drawStyle": "bars" if bars else "line",
        "lineWidth": 2,
        "fillOpacity": 60 if bars else 30 if stacked else 8,
        "showPoints": "never",
        "spanNulls": True,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    steps = more.get("steps", NO_STEPS)
    if len(steps) > 1:
        custom["thresholdsStyle"] = {"mode": "dashed"}
        # Colour by series: threshold colours would make all series look alike.
        more.setdefault("defaults", {}).setdefault("color", {"mode": "palette-classic"})
    options = {
        "legend": {
            "displayMode": "table",
            "placement": "right" if more.get("width", 0) >= WIDE else "bottom",
            "calcs": ["lastNotNull", "max"],
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    more.setdefault("defaults", {}).setdefault("min", 0)
    return Panel(
        kind="timeseries",
        title=title,
        about=about,
        targets=targets,
        options=options,
        custom=custom,
        **more,
    )


def bars(title: str, about: str, *targets: Json, **more: Any) -> Panel:
    """Return one horizontal bar for each series."""
    options = {
        "orientation": "horizontal",
        "displayMode": "gradient",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    return Panel(
        kind="bargauge", title=title, about=about, targets=targets, options=options, **more
    )


def table(title: str, about: str, *targets: Json, **more: Any) -> Panel:
    """Return a table of query rows."""
    options = {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}}
    return Panel(
        kind="table",
        title=title,
        about=about,
        targets=targets,
        options=options,
        custom={"align": "auto", "filterable": True},
        **{"width": COLUMNS} | more,
    )


def of_query(ref_id: str, **properties: Any) -> Json:
    """Return display options of the result of one query."""
    return {
        "matcher": {"id": "byFrameRefID", "options": ref_id},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }


def column(name: str, **properties: Any) -> Json:
    """Return display options of a table column: `unit`, `links`, `displayName`, `thresholds`, …"""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [
            {"id": key.replace("__", "."), "value": properties[key]} for key in properties
        ],
    }


def coloured(name: str, steps: Steps, **properties: Any) -> Json:
    """Return a column whose text has the colour of its threshold."""
    made = [{"value": value, "color": color} for value, color in steps]
    return column(
        name,
        thresholds={"mode": "absolute", "steps": made},
        color={"mode": "thresholds"},
        custom__cellOptions={"type": "color-text"},
        **properties,
    )


def note(title: str, text: str, *, width: int = COLUMNS, height: int = 4) -> Panel:
    """Return a Markdown text."""
    return Panel(
        kind="text", title=title, about="", targets=[], width=width, height=height,
        options={"mode": "markdown", "content": text},
    )  # fmt: skip


def label_variable(name: str, label: str, metric: str, of: str) -> Json:
    """Return a variable with the values of a label; default: all."""
    query = f"label_values({metric}, {of})"
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": PROMETHEUS,
        "definition": query,
        "query": {"query": query, "refId": "Variable"},
        **_MANY,
        "allValue": ".+",
    }


def sql_variable(name: str, label: str, query: str) -> Json:
    """Return a variable with the rows of a query; default: all."""
    text = sql(query)["rawSql"]
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": CLICKHOUSE,
        "definition": text,
        "query": {"editorType": "sql", "rawSql": text},
        **_MANY,
    }


_MANY: Final[Json] = {
    "multi": True,
    "includeAll": True,
    "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    "refresh": 2,
    "sort": 1,
    "options": [],
}


def text_variable(name: str, label: str, value: str = "") -> Json:
    """Return a text input variable."""
    chosen = {"selected": True, "text": value, "value": value}
    return {
        "name": name,
        "label": label,
        "type": "textbox",
        "query": value,
        "current": chosen,
        "options": [chosen],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Dashboard: rows of panels under headings."""

    uid: str
    title: str
    about: str
    rows: Sequence[tuple[str, Sequence[Panel]]]
    variables: Sequence[Json] = ()
    since: str = "now-1h"

    def json(self) -> Json:
        """Return the dashboard in Grafana's JSON format; the output is reproducible."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": ["tracereel"],
            "schemaVersion": 41,
            "version": 1,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "30s",
            "timezone": "browser",
            "time": {"from": self.since, "to": "now"},
            "links": [
                {
                    "title": "tracereel",
                    "type": "dashboards",
                    "tags": ["tracereel"],
                    "asDropdown": False,
                    "includeVars": False,
                    "keepTime": True,
                }
            ],
            "templating": {"list": list(self.variables)},
            "annotations": {"list": []},
            "panels": self._laid_out(),
        }

    def _laid_out(self) -> list[Json]:
        made: list[Json] = []
        y = 0
        for heading, panels in self.rows:
            made.append(_heading(len(made) + 1, heading, y))
            y += 1
            x = tallest = 0
            for panel in panels:
                if x + panel.width > COLUMNS:
                    x, y, tallest = 0, y + tallest, 0
                made.append(panel.json(len(made) + 1, x, y))
                x, tallest = x + panel.width, max(tallest, panel.height)
            y += tallest
        return made


def _heading(number: int, title: str, y: int) -> Json:
    place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
    return {
        "id": number, "type": "row", "title": title, "gridPos": place, "collapsed": False, "panels": [],
    }  # fmt: skip
