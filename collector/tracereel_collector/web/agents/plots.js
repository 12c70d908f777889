// Plots in SVG: sparklines, bars and lines, each with a text alternative.

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
    return [
      svg("rect", { class: "ok", ...place, y: height - tall, height: tall - red }),
      red && svg("rect", { class: "failed", ...place, y: height - red, height: red }),
    ];
  });
  return svg(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    bars.filter(Boolean),
  );
}

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [560, 160, 64, 22];

function frame(label, most, shown, children, foot, above = 0) {
  const inner = HEIGHT - BOTTOM;
  const tall = inner - 8 - above;
  const lines = [0, .5, 1].map((part) => [
    svg("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: inner - part * tall, y2: inner - part * tall }),
    svg("text", { x: LEFT - 6, y: inner - part * tall + 4.5, "text-anchor": "end" }, shown(most * part)),
  ]);
  return svg(
    "svg",
    { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    lines,
    children,
    foot,
  );
}

/** The next round number with a round half, so that all grid lines are round. */
function rounded(most) {
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10]
    .map((each) => Number((each * unit).toPrecision(2)))
    .find((each) => each >= most * 0.9999);
}

/** The same for counts: small ones are rounded to an even number. */
function roundedCount(most) {
  return most > 10 ? rounded(most) : Math.max(2, most + (most % 2));
}

/** `2.00 s` on a scale is `2 s`. */
function tick(shown) {
  return (value) => shown(value).replace(/\.(\d*?)0+(?!\d)/, (_, kept) => (kept ? `.${kept}` : ""));
}

function times(series) {
  if (!series.length) return [];
  const [first, last] = [Date.parse(series[0].from), Date.parse(series.at(-1).from)];
  const step = series.length > 1 ? (last - first) / (series.length - 1) : 0;
  const end = new Date(Math.max(last, Math.min(Date.now(), last + step))).toISOString();
  return [
    svg("text", { x: LEFT, y: HEIGHT - 4 }, clock(series[0].from)),
    svg("text", { x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, clock(end)),
  ];
}

/** Bars over time, the failed part in red. */
export function barsOverTime(series, label, shown) {
  const inner = HEIGHT - BOTTOM;
  const most = roundedCount(Math.max(0, ...series.map((each) => each.executions)));
  const step = (WIDTH - LEFT) / Math.max(1, series.length);
  const bars = series.flatMap(({ executions, failed }, at) => {
    if (!executions) return [];
    const tall = (executions / most) * (inner - 8);
    const red = (failed / executions) * tall;
    const place = { x: LEFT + at * step + step * .1, width: step * .8 };
    return [
      svg("rect", { class: "ok", ...place, y: inner - tall, height: tall - red }),
      failed ? svg("rect", { class: "failed", ...place, y: inner - red, height: red }) : null,
    ];
  });
  return frame(label, most, shown, bars, times(series));
}

/** Lines over time; a moment without a value breaks a line. */
export function linesOverTime(series, names, label, shown) {
  const inner = HEIGHT - BOTTOM;
  const top = rounded(Math.max(1e-9, ...series.flatMap((each) => names.map((name) => each[name] ?? 0))));
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
      if (!going && series[index + 1]?.[name] == null)
        dots.push(svg("circle", { cx: x, cy: y, r: 2.4, class: at ? "dot-second" : "dot-first" }));
      going = true;
    });
    return [svg("path", { class: `line ${at ? "second" : ""}`, d: drawn }), dots];
  });
  return frame(label, top, tick(shown), lines, times(series));
}

/** How often each tenth of the scale was reached. */
export function tenths(counts, label) {
  const inner = HEIGHT - BOTTOM;
  const most = roundedCount(Math.max(0, ...counts));
  const step = (WIDTH - LEFT) / counts.length;
  const bars = counts.map((value, at) =>
    value
      ? svg("rect", {
          class: "ok",
          x: LEFT + at * step + 2,
          width: step - 4,
          y: inner - (value / most) * (inner - 8),
          height: (value / most) * (inner - 8),
        })
      : null,
  );
  const foot = [0, 2, 4, 6, 8, 10].map((at) =>
    svg(
      "text",
      { x: LEFT + at * step, y: HEIGHT - 4, "text-anchor": at === 10 ? "end" : "middle" },
      (at / 10).toFixed(1),
    ),
  );
  return frame(label, most, (value) => String(Math.round(value)), bars.filter(Boolean), foot);
}

const OCTAVE = 8;
const MOST_BARS = 48;
const LABELS = 18;
/** How wide the name of a percentile is. */
const NAME = 34;
const [P50, P95, P99] = ["p50_ms", "p95_ms", "p99_ms"];

/** Buckets as they are counted, or two, four, … of them together where there are too many to be seen. */
function bars(buckets) {
  const first = Math.round(Math.log2(buckets[0].to_ms) * OCTAVE);
  const last = Math.round(Math.log2(buckets.at(-1).to_ms) * OCTAVE);
  let size = 1;
  while ((last - first + 1) / size > MOST_BARS) size *= 2;
  const sums = new Map();
  for (const { to_ms: to, executions } of buckets) {
    const at = Math.floor((Math.round(Math.log2(to) * OCTAVE) - 1) / size);
    sums.set(at, (sums.get(at) ?? 0) + executions);
  }
  return [...sums].map(([at, executions]) => ({
    from: (at * size) / OCTAVE,
    to: ((at + 1) * size) / OCTAVE,
    executions,
  }));
}

/** 1, 2, 5, 10, … between two powers of two; fewer where they would stand too close. */
function marksBetween(low, high) {
  const all = [];
  for (let unit = 10 ** Math.floor(low * Math.log10(2)); unit <= 2 ** high; unit *= 10)
    all.push(unit, 2 * unit, 5 * unit);
  const within = all.filter((each) => Math.log2(each) >= low && Math.log2(each) <= high);
  return within.length <= 6
    ? within
    : within.filter((_, at) => (within.length - 1 - at) % Math.ceil(within.length / 6) === 0);
}

/** How durations are spread, on a scale that doubles; percentiles are lines in it. */
export function spread(buckets, latency, label, shown) {
  if (!buckets.length) return frame(label, 2, (value) => String(Math.round(value)), []);
  const inner = HEIGHT - BOTTOM;
  const drawn = bars(buckets);
  const [low, high] = [
    Math.min(...drawn.map((each) => each.from)) - 0.3,
    Math.max(...drawn.map((each) => each.to)) + 0.3,
  ];
  const x = (power) => LEFT + ((power - low) / (high - low)) * (WIDTH - LEFT);
  const most = roundedCount(Math.max(...drawn.map((each) => each.executions)));
  const room = inner - 8 - LABELS;
  const columns = drawn.map(({ from, to, executions }) =>
    svg("rect", {
      class: "ok",
      x: x(from) + 0.5,
      width: Math.max(1, x(to) - x(from) - 1),
      y: inner - (executions / most) * room,
      height: (executions / most) * room,
    }),
  );
  // Names stand in a row above their lines; those that would cover the one before stand beside it.
  let free = LEFT;
  const known = [P50, P95, P99]
    .filter((name) => latency[name] != null)
    .map((name) => ({ name: name.replace("_ms", ""), place: x(Math.log2(latency[name])) }));
  const lines = known.map(({ name, place }, at) => {
    const left = Math.min(Math.max(free, place - NAME / 2), WIDTH - NAME * (known.length - at));
    free = left + NAME;
    return [
      svg("line", { class: "percentile", x1: place, x2: place, y1: LABELS - 2, y2: inner }),
      svg("text", { class: "percentile-name", x: left + NAME / 2, y: 12, "text-anchor": "middle" }, name),
    ];
  });
  const foot = marksBetween(low, high).map((each) =>
    svg(
      "text",
      { x: x(Math.log2(each)), y: HEIGHT - 4, "text-anchor": x(Math.log2(each)) > WIDTH - 24 ? "end" : "middle" },
      tick(shown)(each),
    ),
  );
  return frame(label, most, (value) => String(Math.round(value)), [columns, lines], foot, LABELS);
}
