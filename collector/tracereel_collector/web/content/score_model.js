// Scores: which belong to a step, and what a filled form says. No elements here.

/**
 * Scores of a step by span or execution; without a step, those of the run as a whole.
 * @param {any[]} scores
 * @param {{ step?: string, executions?: string[] }} target
 */
export function scoresOf(scores, { step, executions = [] }) {
  if (!step) return scores.filter((score) => !score.span_id && !score.execution_id);
  return scores.filter(
    (score) => score.span_id === step || (score.execution_id && executions.includes(score.execution_id)),
  );
}

/**
 * A score as the API takes it; a value is a number, true or false, or a word.
 * @param {{ name?: any, value?: any, comment?: any }} given
 * @param {{ trace?: string, session?: string, step?: string }} target
 */
export function scoreOf({ name = "", value = "", comment = "" }, { trace, session, step }) {
  const said = String(value).trim();
  /** @type {Record<string, any>} */
  const score = { name: String(name).trim(), source: "person" };
  if (session != null) score.session_id = session;
  else score.trace_id = trace;
  if (step) score.span_id = step;
  if (said) score.value = valueOf(said);
  if (String(comment).trim()) score.comment = String(comment).trim();
  return score;
}

function valueOf(text) {
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === "true";
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}
