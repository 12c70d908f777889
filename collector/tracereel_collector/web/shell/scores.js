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

/** Scores of a run and its steps, at most as many as fit beside a name. */
export function scoreLabels(scores, most = 6) {
  if (!scores?.length) return null;
  const title = (score) => [score.of_step ? "Score of a step" : "Score of the run", plain(score.comment ?? "")];
  return h(
    "span",
    { class: "score-labels" },
    scores.slice(0, most).map((score) =>
      h("span", { class: "score", title: title(score).filter(Boolean).join(": ") }, scoreText(score)),
    ),
    scores.length > most && h("small", { class: "quiet" }, `+${scores.length - most}`),
  );
}
