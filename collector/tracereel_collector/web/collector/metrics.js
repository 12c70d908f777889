// Parser of the Prometheus text format.

export function parseMetrics(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    if (!line || line[0] === "#") continue;
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(/\b(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[name] = value.replace(/\\(.)/g, "$1");
    if (!samples.has(found[1])) samples.set(found[1], []);
    samples.get(found[1]).push({ labels, value: Number(found[3]) });
  }
  return samples;
}

/** The sum of a metric's samples that have these labels. */
export function sum(samples, name, labels = {}) {
  return (samples.get(name) ?? [])
    .filter((each) => Object.entries(labels).every(([key, value]) => each.labels[key] === value))
    .reduce((total, each) => total + each.value, 0);
}

/** A metric by one of its labels, the largest first. */
export function by(samples, name, label) {
  const totals = new Map();
  for (const { labels, value } of samples.get(name) ?? [])
    if (value) totals.set(labels[label], (totals.get(labels[label]) ?? 0) + value);
  return [...totals].sort((a, b) => b[1] - a[1]);
}
