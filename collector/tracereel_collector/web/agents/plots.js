// Small drawings: sparklines, bars and lines, all in SVG, all with their meaning in words.

import { svg } from "../shell/elements.js";
import { clock } from "../shell/words.js";

export function sparkline(executions, failed, label) {
  const [width, height] = [120, 22];
  const most = Math.max(1, ...executions);
  const step = width / Math.max(1, executions.length);
  const bars = executions.flatMap((value, at) => {
    if (!value) return [];
    const tall = Math.max(1.5, (value / most) * height);
    const red = failed[at] ? Math.max(1.5, (failed[at] / value) * tall) : 0;
    const place = { x: at * step, width: Math.max(1, step * .8) };
    return [svg("rect", { class: "ok", ...place, y: height - tall, height: tall - red }), red && svg("rect", { class: "failed", ...place, y: height - red, height: red })];
  });
  return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, bars.filter(Boolean));
}

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [520, 150, 52, 18];

function frame(label, most, shown, children, foot) {
  const inner = HEIGHT - BOTTOM;
  const lines = [0, .5, 1].map((part) => [
    svg("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: inner - part * (inner - 8), y2: inner - part * (inner - 8) }),
    svg("text", { x: LEFT - 6, y: inner - part * (inner - 8) + 3.5, "text-anchor": "end" }, shown(most * part)),
  ]);
  return svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, lines, children, foot);
}

/** An even number, so that the line in the middle stands for a whole one too. */
function even(most) {
  return Math.max(2, most + (most % 2));
}

function times(series) {
  if (!series.length) return [];
  return [svg("text", { x: LEFT, y: HEIGHT - 4 }, clock(series[0].from)), svg("text", { x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, clock(series.at(-1).from))];
}

/** Bars over time, the failed part in red. */
export function barsOverTime(series, label, shown) {
  const inner = HEIGHT - BOTTOM;
  const most = even(Math.max(0, ...series.map((each) => each.executions)));
  const step = (WIDTH - LEFT) / Math.max(1, series.length);
  const bars = series.flatMap(({ executions, failed }, at) => {
    if (!executions) return [];
    const tall = (executions / most) * (inner - 8);
    const red = (failed / executions) * tall;
    const place = { x: LEFT + at * step + step * .1, width: step * .8 };
    return [svg("rect", { class: "ok", ...place, y: inner - tall, height: tall - red }), failed ? svg("rect", { class: "failed", ...place, y: inner - red, height: red }) : null];
  });
  return frame(label, most, shown, bars, times(series));
}

/** Lines over time; a moment without a value breaks a line. */
export function linesOverTime(series, names, label, shown, most = null) {
  const inner = HEIGHT - BOTTOM;
  const top = most ?? Math.max(1e-9, ...series.flatMap((each) => names.map((name) => each[name] ?? 0)));
  const step = (WIDTH - LEFT) / Math.max(1, series.length);
  const lines = names.map((name, at) => {
    let drawn = "";
    let going = false;
    const dots = [];
    series.forEach((each, index) => {
      const value = each[name];
      if (value == null) { going = false; return; }
      const [x, y] = [LEFT + (index + .5) * step, inner - (Math.min(value, top) / top) * (inner - 8)];
      drawn += `${going ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      if (!going && series[index + 1]?.[name] == null) dots.push(svg("circle", { cx: x, cy: y, r: 2.4, class: at ? "dot-second" : "dot-first" }));
      going = true;
    });
    return [svg("path", { class: `line ${at ? "second" : ""}`, d: drawn }), dots];
  });
  return frame(label, top, shown, lines, times(series));
}

/** How often each tenth of the scale was reached. */
export function tenths(counts, label) {
  const inner = HEIGHT - BOTTOM;
  const most = even(Math.max(0, ...counts));
  const step = (WIDTH - LEFT) / counts.length;
  const bars = counts.map((value, at) => value ? svg("rect", { class: "ok", x: LEFT + at * step + 2, width: step - 4, y: inner - (value / most) * (inner - 8), height: (value / most) * (inner - 8) }) : null);
  const foot = counts.map((_, at) => svg("text", { x: LEFT + at * step, y: HEIGHT - 4, "text-anchor": "middle" }, (at / 10).toFixed(1)));
  return frame(label, most, (value) => String(Math.round(value)), bars.filter(Boolean), foot);
}

/** Percentiles as marks on one line. */
export function percentiles(latency, label, shown) {
  const marks = ["p50_ms", "p90_ms", "p95_ms", "p99_ms"].filter((name) => latency[name] != null);
  const most = Math.max(1e-9, ...marks.map((name) => latency[name]));
  const rows = marks.map((name, at) => {
    const y = 20 + at * 30;
    const wide = (latency[name] / most) * (WIDTH - LEFT - 70);
    return [svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, name.replace("_ms", "")),
      svg("rect", { class: "ok", x: LEFT, y: y - 7, width: Math.max(1, wide), height: 14 }), svg("text", { x: LEFT + wide + 6, y: y + 4 }, shown(latency[name]))];
  });
  return svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, rows);
}
