// Shows one run: its summary and its timeline. Recorded text is only ever put into text nodes.

const form = document.getElementById("find");
const field = document.getElementById("trace");
const message = document.getElementById("message");

const SUMMARY = [
  ["status", "Status"], ["pipeline_type", "Pipeline"], ["total_time_ms", "Time (ms)"],
  ["total_events", "Events"], ["agents_executed", "Agents"], ["errors", "Errors"],
  ["retries", "Retries"], ["fallbacks", "Fallbacks"], ["decisions", "Decisions"],
  ["llm_tokens_used", "Tokens"], ["llm_cost_usd", "Cost (USD)"],
];

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function whatHappened(details) {
  const parts = [];
  const duration = details.execution_time_ms ?? details.total_execution_time_ms
    ?? details.execution_time_before_failure_ms ?? details.duration_ms;
  if (duration != null) parts.push(`${duration} ms`);
  const confidence = details.confidence ?? details.final_confidence ?? details.fallback_confidence;
  if (confidence != null) parts.push(`confidence ${confidence}`);
  const text = details.error_message ?? details.reasoning ?? details.output_summary
    ?? details.input_summary ?? details.user_prompt ?? details.original_error ?? details.primary_error;
  if (details.decision_type) parts.push(details.decision_type);
  if (text) parts.push(text);
  return parts.join(" · ");
}

function show(run) {
  const summary = document.getElementById("summary");
  summary.replaceChildren();
  for (const [key, label] of SUMMARY) {
    if (run.summary[key] == null) continue;
    const pair = document.createElement("div");
    pair.append(element("dt", label), element("dd", String(run.summary[key])));
    summary.append(pair);
  }
  const first = Date.parse(run.timeline[0].time);
  const rows = run.timeline.map(({ time, event, details }) => {
    const row = document.createElement("tr");
    if (event.endsWith(".failed")) row.className = "failed";
    const offset = (Date.parse(time) - first) / 1000;
    row.append(
      element("td", `+${offset.toFixed(3)} s`, "offset"),
      element("td", event.replace(/^agent\./, "")),
      element("td", details.agent_name ?? details.pipeline_type ?? details.primary_agent ?? ""),
      element("td", whatHappened(details), "what"),
    );
    return row;
  });
  document.getElementById("timeline").replaceChildren(...rows);
  document.getElementById("run").hidden = false;
  document.getElementById("start").hidden = true;
}

async function replay(trace) {
  message.textContent = "";
  document.getElementById("run").hidden = true;
  try {
    const answer = await fetch(`/v1/replay/${encodeURIComponent(trace)}`);
    const body = await answer.json();
    if (answer.ok) show(body);
    else message.textContent = [body.error.message, body.error.hint].filter(Boolean).join(": ");
  } catch (error) {
    message.textContent = `The collector does not answer: ${error.message}`;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const trace = field.value.trim();
  if (trace) location.hash = encodeURIComponent(trace);
});

function follow() {
  const trace = decodeURIComponent(location.hash.slice(1));
  if (!trace) return;
  field.value = trace;
  replay(trace);
}

window.addEventListener("hashchange", follow);
follow();
