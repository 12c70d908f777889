// Entry point of the page: shows the view that the address names and the health of the collector.

import { here } from "./shell/address.js";
import { Refusal, ask } from "./shell/ask.js";
import { noteCollector } from "./shell/collector.js";
import { h } from "./shell/elements.js";
import { logOut, showLogout } from "./shell/login.js";
import { allOf, readRun } from "./run/reading.js";
import { questionOf, readRuns } from "./runs/parameters.js";
import { showHelp, useKeys } from "./shell/shortcuts.js";
import { collectorAnswers, failure, loading } from "./shell/states.js";
import { setUpTheme } from "./shell/theme.js";
import { useColours } from "./shell/words.js";

/** Loader, title and early request of each view. */
const VIEWS = {
  runs: [() => import("./runs/view.js"), "Runs", ({ query }, signal) => readRuns(questionOf(query), signal)],
  run: [
    () => import("./run/view.js"),
    "Run",
    ({ parts, query }, signal) => readRun(parts[0] ?? "", signal, allOf(query)),
  ],
  compare: [() => import("./compare/view.js"), "Compare"],
  agents: [() => import("./agents/view.js"), "Agents"],
  agent: [() => import("./agents/agent.js"), "Agent"],
  sessions: [() => import("./sessions/view.js"), "Sessions"],
  session: [() => import("./sessions/session.js"), "Session"],
  fleets: [() => import("./fleets/view.js"), "Fleet replays"],
  fleet: [() => import("./fleets/fleet.js"), "Fleet replay"],
  collector: [() => import("./collector/view.js"), "Collector"],
};
/** View that a view belongs to; of one thing, except a comparison, it needs an id. */
const PARENTS = { run: "runs", compare: "runs", agent: "agents", session: "sessions", fleet: "fleets" };
const main = document.getElementById("main");
let shown = { key: null, update: null, stop: null };
let away = false;
let nextCheck;

/** A view is `show(place, address, signal, begun)`; it may return `update(address)` for changes of the query. */
async function follow() {
  const address = here();
  const parent = Object.hasOwn(PARENTS, address.view) ? PARENTS[address.view] : null;
  if (parent && address.view !== "compare" && !address.parts[0]) {
    location.replace(`#/${parent}`);
    return;
  }
  const key = `${address.view}/${address.parts.join("/")}`;
  if (shown.key === key && shown.update) {
    const { stop, place } = shown;
    try {
      await shown.update(address);
    } catch (error) {
      // Only the newest address counts; the view starts over with it.
      if (location.hash === address.hash) tell(error, place, stop, () => { shown.key = null; follow(); });
    }
    return;
  }
  shown.stop?.abort();
  const stop = new AbortController();
  const known = Object.hasOwn(VIEWS, address.view);
  const place = h("div", { class: `view view-${known ? address.view : "none"}` });
  shown = { key, update: null, stop, place };
  useKeys({});
  useColours([]);
  const [load, title, begin] = known ? VIEWS[address.view] : [];
  document.title = title ? `${title} · tracereel` : "tracereel";
  for (const each of document.querySelectorAll("#views a")) {
    const current = each.getAttribute("data-view") === (parent ?? address.view);
    if (current) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  let loaded = false;
  const again = async () => {
    // Some browsers do not request a module again after it failed to load.
    if (!loaded && (await isThere())) location.reload();
    else { shown.key = null; follow(); }
  };
  main.replaceChildren(place);
  if (!load) {
    place.append(failure(new Refusal("missing", `Unknown view: ${address.view.slice(0, 40)}`)));
    return;
  }
  place.append(loading());
  const begun = begin?.(address, stop.signal);
  begun?.catch(() => {}); // the view shows the failure
  try {
    const view = await load().catch(() => { throw new Refusal("away", "The collector is not responding"); });
    loaded = true;
    const update = await view.show(place, address, stop.signal, begun);
    if (shown.stop === stop) shown.update = update ?? null;
  } catch (error) {
    tell(error, place, stop, again, title);
  }
}

/** Shows a failure in place of a view. */
function tell(error, place, stop, again, what) {
  if (stop.signal.aborted || error.name === "AbortError") return;
  if (!(error instanceof Refusal)) console.error(error);
  place.replaceChildren(failure(error, again, what));
  if (error.kind === "away") checkHealth();
}

async function isThere() {
  return ask("/healthz").then(() => true, () => false);
}

async function checkHealth() {
  const place = document.getElementById("health");
  let [state, text] = ["good", "Collector healthy"];
  try {
    const ready = await ask("/readyz");
    const { queue, store } = ready;
    noteCollector(ready);
    if (away) { away = false; collectorAnswers(); }
    if (!queue.accepts) [state, text] = ["bad", "No data is accepted"];
    else if (!store.answers) [state, text] = ["warn", "Store is not responding"];
    else if (store.problem) [state, text] = ["warn", "Store cannot be used yet"];
  } catch (error) {
    if (error.kind === "away") away = true;
    [state, text] = error.kind === "away" ? ["bad", "Collector unreachable"] : ["bad", "No data is accepted"];
  }
  place.className = `health ${state}`;
  if (place.textContent !== text) place.textContent = text;
  clearTimeout(nextCheck);
  nextCheck = setTimeout(checkHealth, document.hidden ? 30_000 : 5_000);
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("help").addEventListener("click", showHelp);
document.getElementById("logout").addEventListener("click", logOut);
window.addEventListener("hashchange", follow);
setUpTheme(document.getElementById("theme"));
showLogout();
follow();
checkHealth();
