// Scores as short labels.

import { h } from "./elements.js";
import { plain } from "./words.js";

/** `correct ✓`, `helpful 0.75`, `tone: friendly`. */
export function scoreText({ name, value }) {
  const said = plain(name);
  if (value == null) return said;
  if (typeof value === "boolean") return `${said} ${value ? "✓" : "✕"}`;
  return typeof value === "number" ? `${said} ${Number(value.toFixed(4))}` : `${said}: ${plain(value)}`;
}

/** Scores of a run and its steps, or of a session, at most as many as fit beside a name. */
export function scoreLabels(scores, most = 6, rated = "run") {
  if (!scores?.length) return null;
  const title = (score) => [score.of_step ? "Score of a step" : `Score of the ${rated}`, plain(score.comment ?? "")];
  return h(
    "span",
    { class: "score-labels" },
    scores.slice(0, most).map((score) =>
      h("span", { class: "score", title: title(score).filter(Boolean).join(": ") }, scoreText(score)),
    ),
    scores.length > most && h("small", { class: "quiet" }, `+${scores.length - most}`),
  );
}

/** Scores by name: the mean of numbers, the share of yes, or the most frequent category. */
export function averages(scores) {
  const named = new Map();
  for (const score of scores)
    if (score.value != null) named.set(score.name, [...(named.get(score.name) ?? []), score]);
  return [...named].map(([name, all]) => {
    const texts = all.map((score) => score.value).filter((value) => typeof value === "string");
    if (texts.length) return { name, text: plain(mostFrequent(texts)), scores: all.length };
    const mean = all.reduce((sum, { value }) => sum + Number(value), 0) / all.length;
    const share = all.every(({ value }) => typeof value === "boolean");
    return { name, text: share ? `${Math.round(mean * 100)} %` : String(Number(mean.toFixed(3))), scores: all.length };
  });
}

function mostFrequent(texts) {
  const counted = new Map();
  for (const text of texts) counted.set(text, (counted.get(text) ?? 0) + 1);
  return [...counted].sort((a, b) => b[1] - a[1])[0][0];
}
