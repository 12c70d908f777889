// View of the sessions, the most recently active first.

import { AskedReader } from "../runs/asked.js";
import { completing } from "../runs/completion.js";
import { showChips } from "../runs/filters.js";
import { adding } from "../runs/parameters.js";
import { parse } from "../runs/query_text.js";
import { address as made, change, go } from "../shell/address.js";
import { ask } from "../shell/ask.js";
import { button, h, link, toast } from "../shell/elements.js";
import { useKeys } from "../shell/shortcuts.js";
import { choice, costWithUnpriced, scrolled } from "../shell/pieces.js";
import { scoreLabels } from "../shell/scores.js";
import { ago, clock, compact, count, plain } from "../shell/words.js";

const WINDOWS = [["1h", "1 h"], ["24h", "24 h"], ["7d", "7 d"], ["30d", "30 d"]];

/** Filters of sessions: names in the search box, and parameters. */
const NAMES = ["user", "score", "score_category"];
const FILTERS = ["user", "score", "score_category", "min_score", "max_score"];
const MOST_SCORES = 4;

export async function show(place, address, signal) {
  const body = h("tbody", { on: { click: open } });
  const more = h("div", { class: "more" });
  let question = new URLSearchParams();
  const asked = new AskedReader(signal);
  const chips = h("div", { class: "chips" });
  const words = h("input", {
    type: "search", "aria-label": "Search sessions", autocomplete: "off", maxlength: 400, spellcheck: "false",
    placeholder: "user: or score: …",
  });
  const completion = completing(words, { question: () => question, signal, only: NAMES });
  const search = h(
    "form",
    { class: "search", role: "search", on: { submit: (event) => { event.preventDefault(); submit(); } } },
    h("div", { class: "words" }, words, completion.element),
    completion.names,
  );

  function submit() {
    completion.close();
    const { words: left, filters, problem } = parse(words.value.trim());
    const other = filters.find(([name]) => !FILTERS.includes(name));
    const wrong = problem ?? (left || other ? "Sessions are searched by user: and score:" : null);
    if (wrong) { toast(wrong); return; }
    words.value = "";
    const changes = adding(question, filters);
    // A session is of one user.
    if (changes.user) changes.user = filters.findLast(([name]) => name === "user")[1];
    change(changes);
  }

  async function read(cursor) {
    const query = new URLSearchParams(question);
    for (const [name, value] of Object.entries({ limit: 50, scores: MOST_SCORES })) query.set(name, String(value));
    if (cursor) query.set("cursor", cursor);
    const { sessions, next } = await ask(`/v1/sessions?${query}`, { signal });
    if (!cursor) body.replaceChildren();
    body.append(...sessions.map(rowOf));
    readAsked(sessions);
    more.replaceChildren(next ? button("Show more", () => read(next).catch(({ message }) => toast(message))) : "");
    return sessions.length;
  }

  /** Sessions whose last turn is known from spans only. */
  function readAsked(sessions) {
    const lacking = sessions.filter((session) => !session.asked && !session.answered && session.last_trace_id);
    const byRun = new Map(lacking.map((session) => [session.last_trace_id, session]));
    asked.read(lacking.map(({ last_trace_id: id, ended_at: state }) => ({ id, state })), (ids) => {
      for (const id of ids) {
        const session = { ...byRun.get(id), ...asked.of(id) };
        const row = [...body.rows].find((each) => each.dataset.session === session.session_id);
        row?.replaceWith(rowOf(session));
      }
    });
  }

  async function draw({ query }) {
    const from = query.get("from") ?? "7d";
    question = new URLSearchParams({ from });
    for (const name of FILTERS)
      for (const value of name === "user" ? query.getAll(name).slice(0, 1) : query.getAll(name))
        question.append(name, value);
    const filtered = FILTERS.some((name) => question.has(name));
    showChips(chips, filtered ? question : new URLSearchParams(), { clear });
    const found = await read();
    place.replaceChildren(
      h(
        "div",
        { class: "page" },
        h(
          "div",
          { class: "heading" },
          h("h1", {}, "Sessions"),
          h(
            "span",
            { class: "end" },
            choice("Window of time", WINDOWS, from, (value) => change({ from: value })),
          ),
        ),
        search,
        chips,
        found
          ? scrolled(
              "Sessions",
              h(
                "table",
                { class: "grid cards sessions" },
                h(
                  "thead",
                  {},
                  h(
                    "tr",
                    {},
                    [
                      ["Session", ""],
                      ["Conversation", ""],
                      ["User", ""],
                      ["Scores", ""],
                      ["Turns", "number"],
                      ["Failed", "number"],
                      ["Tokens", "number"],
                      ["Cost", "number"],
                      ["Last active", "number"],
                    ].map(([title, kind]) => h("th", { scope: "col", class: kind }, title)),
                  ),
                ),
                body,
              ),
            )
          : h(
              "section",
              { class: "state" },
              h("h2", {}, filtered ? "No session matches" : "No conversation in this window"),
              !filtered && h(
                "p",
                {},
                "Runs with the same ",
                h("code", {}, "session_id"),
                " are turns of one conversation. A pipeline that takes an argument of that name records it.",
              ),
            ),
        more,
      ),
    );
  }
  const clear = () => change(Object.fromEntries(FILTERS.map((name) => [name, null])));
  useKeys({ "/": ["Search sessions", () => { words.focus(); words.select(); }] });
  await draw(address);
  return draw;
}

/** The whole row opens its session; the link is for keyboards and new tabs. */
function open(event) {
  const row = event.target.closest("tr");
  if (!row || event.target.closest("a") || String(getSelection())) return;
  go("session", [row.dataset.session]);
}

function rowOf(session) {
  return h(
    "tr",
    { "data-session": session.session_id },
    h(
      "td",
      { class: "mono cut", title: plain(session.session_id) },
      link(made("session", [session.session_id]), plain(session.session_id)),
    ),
    saidIn(session),
    h("td", { class: "quiet cut", title: session.users.map(plain).join("\n") }, session.users.map(plain).join(", ")),
    h("td", { class: "c-scores" }, scoreLabels(session.scores, 3, "session")),
    h("td", { class: "number", "data-name": "Turns" }, count(session.turns)),
    h(
      "td",
      { class: `number ${session.failed_turns ? "bad" : "quiet nothing"}`, "data-name": "Failed" },
      count(session.failed_turns),
    ),
    h(
      "td",
      { class: `number${session.tokens ? "" : " nothing"}`, "data-name": "Tokens" },
      compact(session.tokens || null),
    ),
    h(
      "td",
      { class: `number${session.cost_usd == null ? " nothing" : ""}`, "data-name": "Cost" },
      costWithUnpriced(session),
    ),
    h("td", { class: "number quiet", title: clock(session.ended_at) }, ago(session.ended_at)),
  );
}

/** What was asked and answered last, else how the session began. */
function saidIn({ asked, answered, first_prompt: first, name }) {
  const texts = [asked ?? first ?? name, answered].filter(Boolean).map(plain);
  return h("td", { class: "cut", title: texts.join("\n\n").slice(0, 600) }, texts.join(" → "));
}
