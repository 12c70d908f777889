"""Preview of every panel, on one page per dashboard, without Grafana.

    python -m tests.dashboards.preview [FOLDER] [--seconds 40] [--demo]

Starts the test stack, or a collector with the demo as `make run` does, lets it run for a while, runs the
panels' queries, and writes an HTML page for each dashboard, to review a changed panel. Grafana renders them
better.
"""

import argparse
import html
import math
import tempfile
import time
from datetime import datetime
from pathlib import Path

from tests.support import grafana
from tests.support.prometheus import tool
from tests.support.stack import demo_stack, running_stack

COLORS = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0")
NAMED = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c", "text": "#d8d9da"}
RATES = {"recps": " rec/s", "eps": " evt/s", "reqps": " req/s", "recpm": " rec/m"}
TIMES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"), (0, "ns"))
STYLE = """body{background:#111217;color:#d8d9da;font:12px sans-serif;margin:12px;width:1440px}
.board{display:grid;grid-template-columns:repeat(24,1fr);grid-auto-rows:30px;gap:6px}
.p{background:#181b1f;border:1px solid #2c3235;padding:4px 6px;overflow:hidden}
.p b{font-weight:600}.big{font-size:26px;text-align:center;padding-top:8px}
.row{font-size:15px;align-self:end}table{border-collapse:collapse;width:100%}
td,th{padding:1px 6px;text-align:left;white-space:nowrap;max-width:230px;overflow:hidden}
.none{color:#f2495c}svg{display:block}"""


class Preview:
    """Renderer that runs the queries of all panels and draws the pages."""

    def __init__(self, stack):
        self.stack = stack
        self.board = ""

    def page(self, board):
        """Draw one dashboard."""
        self.board = board
        made = grafana.BOARDS[board]
        cells = "".join(self._cell(panel) for panel in made["panels"])
        title = html.escape(made["title"])
        return (
            f"<meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
            f"<h2>{title}</h2><div class=board>{cells}</div>"
        )

    def _cell(self, panel):
        at = panel["gridPos"]
        place = (
            f"grid-area:{at['y'] + 1}/{at['x'] + 1}/{at['y'] + at['h'] + 1}/{at['x'] + at['w'] + 1}"
        )
        title = html.escape(panel["title"])
        if panel["type"] == "row":
            return f'<div class=row style="{place}">▾ {title}</div>'
        inside = getattr(self, f"_{panel['type']}")(panel)
        return f'<div class=p style="{place}"><b>{title}</b>{inside}</div>'

    def _text(self, panel):
        return f"<p>{html.escape(panel['options']['content'])}</p>"

    def _traces(self, panel):
        (run,) = self.stack.sql_rows(self.board, "SELECT ${run:sqlstring} AS run")
        answer = self.stack.ask(f"/api/traces/{run['run']}").json()
        return f"<p>{len(answer['data'][0]['spans'])} spans of {run['run']}</p>"

    def _stat(self, panel):
        return "".join(
            f'<div class=big style="color:{NAMED.get(color, color)}">{text}</div>'
            for color, text in self.stats(panel)
        ) or _nothing(panel)

    def stats(self, panel):
        """Return the colours and texts of a panel's numbers."""
        defaults = panel["fieldConfig"]["defaults"]
        shown = []
        for target in panel["targets"]:
            how = defaults | {
                one["id"]: one["value"]
                for each in panel["fieldConfig"]["overrides"]
                if each["matcher"] == {"id": "byFrameRefID", "options": target["refId"]}
                for one in each["properties"]
            }
            for _, points in self._series(panel, target):
                shown.append((_step(how, points[-1][1]), _shown(points[-1][1], how)))
        return shown

    def _bargauge(self, panel):
        found = [each for target in panel["targets"] for each in self._series(panel, target)]
        most = max((points[-1][1] for _, points in found), default=0) or 1
        return "".join(
            f"<div>{html.escape(name)}: {_shown(points[-1][1], panel['fieldConfig']['defaults'])}"
            f'<div style="height:8px;width:{points[-1][1] / most * 90:.0f}%;background:'
            f'{_color(panel["fieldConfig"]["defaults"], points[-1][1])}"></div></div>'
            for name, points in found
        ) or _nothing(panel)

    def _timeseries(self, panel):
        found = [each for target in panel["targets"] for each in self._series(panel, target)]
        if not found:
            return _nothing(panel)
        defaults = panel["fieldConfig"]["defaults"]
        at = panel["gridPos"]
        beside = panel["options"]["legend"]["placement"] == "right"
        width = at["w"] * 60 * (0.6 if beside else 1) - 20
        height = at["h"] * 36 - (34 if beside else 34 + 15 * min(4, len(found) + 1))
        picture = _picture(found, width, max(30, height), defaults)
        legend = "".join(
            f'<tr><td style="color:{COLORS[n % len(COLORS)]}">{html.escape(name)}</td>'
            f"<td>{_shown(points[-1][1], defaults)}</td>"
            f"<td>{_shown(max(value for _, value in points), defaults)}</td></tr>"
            for n, (name, points) in enumerate(found)
        )
        table = f"<table><tr><th></th><th>Last</th><th>Max</th></tr>{legend}</table>"
        side = "display:flex" if beside else ""
        return f'<div style="{side}">{picture}<div>{table}</div></div>'

    def _table(self, panel):
        rows, renamed = [], {}
        for target in panel["targets"]:
            if "rawSql" in target:
                rows += self.stack.sql_rows(self.board, target["rawSql"])
        if any("expr" in target for target in panel["targets"]):
            rows, renamed = self._merged(panel)
        if not rows:
            return _nothing(panel)
        overrides = {
            each["matcher"]["options"]: {one["id"]: one["value"] for one in each["properties"]}
            for each in panel["fieldConfig"]["overrides"]
        }
        names = [renamed.get(name, name) for name in rows[0]]
        names = [overrides.get(name, {}).get("displayName", name) for name in names]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        lines = "".join(
            "<tr>"
            + "".join(
                _table_cell(row.get(key), overrides.get(renamed.get(key, key), {}))
                for key in rows[0]
            )
            + "</tr>"
            for row in rows[: panel["gridPos"]["h"] * 2]
        )
        return f"<table><tr>{head}</tr>{lines}</table>"

    def _merged(self, panel):
        merged = {}
        for target in panel["targets"]:
            text = grafana.promql(target["expr"], self.board)
            for each in self.stack.prometheus.get("query", query=text)["result"]:
                line = merged.setdefault(
                    tuple(sorted(each["metric"].items())), dict(each["metric"])
                )
                line[f"Value #{target['refId']}"] = float(each["value"][1])
        for each in panel.get("transformations", []):
            if each["id"] == "organize":
                columns = {key: None for line in merged.values() for key in line}
                rows = [{key: line.get(key) for key in columns} for line in merged.values()]
                return rows, each["options"]["renameByName"]
        return list(merged.values()), {}

    def _series(self, panel, target):
        """Return names and points; for SQL, a text column names the series."""
        if "rawSql" in target:
            return self._sql_series(target)
        text = grafana.promql(target["expr"], self.board)
        now = time.time()
        began = now if target["instant"] else self.stack.began
        asked = {"query": text, "start": began, "end": now, "step": 1}
        found = self.stack.prometheus.get("query_range", **asked)["result"]
        made = []
        for each in found:
            points = [(at, float(value)) for at, value in each["values"] if value != "NaN"]
            if points:
                made.append((_legend(target, each["metric"]), points))
        return made

    def _sql_series(self, target):
        made = {}
        for row in self.stack.sql_rows(self.board, target["rawSql"]):
            kept = dict(row)
            at = kept.pop(next(iter(kept)))
            when = datetime.fromisoformat(str(at)).timestamp()
            names = [str(value) for value in kept.values() if _number(value) is None]
            for key, value in kept.items():
                if _number(value) is not None:
                    made.setdefault(" ".join(names) or key, []).append((when, _number(value)))
        return list(made.items())


def _legend(target, labels):
    text = target["legendFormat"]
    if text == "__auto":
        return ", ".join(f"{key}={value}" for key, value in labels.items())
    for key, value in labels.items():
        text = text.replace(f"{{{{{key}}}}}", value)
    return text


def _picture(found, width, height, defaults):
    every = [point for _, points in found for point in points]
    first, last = min(at for at, _ in every), max(at for at, _ in every)
    top = max([value for _, value in every] + [defaults.get("max") or 0]) or 1
    drawn = []
    for n, (_, points) in enumerate(found):
        xy = " ".join(
            f"{(at - first) / ((last - first) or 1) * width:.0f},{height - value / top * (height - 12):.0f}"
            for at, value in points
        )
        drawn.append(
            f'<polyline fill=none stroke-width=2 stroke="{COLORS[n % len(COLORS)]}" points="{xy}"/>'
        )
    label = f'<text x=2 y=10 fill="#8e8e8e">{_shown(top, defaults)}</text>'
    return f'<svg width="{width:.0f}" height="{height:.0f}">{"".join(drawn)}{label}</svg>'


def _table_cell(value, how):
    number = _number(value)
    if how.get("unit", "").startswith("time:"):
        asked = how["unit"].removeprefix("time:")
        whole = str(value)[:23] if "SSS" in asked else str(value)[:19]
        text = html.escape(whole if "YYYY" in asked else whole[11:])
    elif number is None or ("unit" not in how and "decimals" not in how):
        text = html.escape("" if value is None else str(value))
    else:
        text = _shown(number, how)
    color = _color(how, number) if number is not None and "thresholds" in how else "inherit"
    for mapping in how.get("mappings", []):
        chosen = mapping.get("options", {}).get(str(value), {})
        color = NAMED.get(chosen.get("color"), color) if isinstance(chosen, dict) else color
    return f'<td style="color:{color}">{text}</td>'


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _color(how, value):
    chosen = _step(how, value)
    return NAMED.get(chosen, chosen)


def _step(how, value):
    """Return the name of the colour that the thresholds give a value."""
    chosen = "text"
    for step in how["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            chosen = step["color"]
    return chosen


def _shown(value, how):
    """Format a value roughly as Grafana does."""
    unit, decimals = how.get("unit", "short"), how.get("decimals")
    if math.isinf(value):
        return "∞"
    if unit == "percentunit":
        return f"{_digits(value * 100, decimals)}%"
    if unit in ("s", "ms", "ns"):
        if not value:
            return f"0 {unit}"
        seconds = value * {"s": 1, "ms": 1e-3, "ns": 1e-9}[unit]
        scale, name = next(((scale, name) for scale, name in TIMES if seconds >= scale), (1, "s"))
        return f"{_digits(seconds / (scale or 1e-9), decimals)} {name}"
    if unit == "bytes":
        power = min(4, int(math.log(value, 1024))) if value >= 1 else 0
        return (
            f"{_digits(value / 1024**power, decimals)} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
        )
    if unit == "currencyUSD":
        return f"${_digits(value, decimals)}"
    if unit == "short" and value >= 1000:
        scale, name = (1e6, "Mil") if value >= 1e6 else (1e3, "K")
        return f"{_digits(value / scale, decimals)} {name}"
    return f"{_digits(value, decimals)}{RATES.get(unit, '')}"


def _digits(value, decimals):
    if decimals is not None:
        return f"{value:,.{decimals}f}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _nothing(panel):
    expected = panel["fieldConfig"]["defaults"].get("noValue")
    return f"<div{'' if expected else ' class=none'}>{html.escape(expected or 'No data')}</div>"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build", "dashboards"))
    parser.add_argument("--seconds", type=float, default=40, help="how long the stack runs before")
    parser.add_argument("--demo", action="store_true", help="show the demo of `make run`")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if tool("prometheus") is None:
        raise SystemExit("no `prometheus` here: on Debian, apt-get install prometheus")
    made = demo_stack if args.demo else running_stack
    with tempfile.TemporaryDirectory() as place, made(Path(place)) as stack:
        time.sleep(args.seconds)
        preview = Preview(stack)
        for board in grafana.BOARDS:
            file = args.folder / f"{board}.html"
            file.write_text(preview.page(board), encoding="utf-8")
            print(file)


if __name__ == "__main__":
    main()
