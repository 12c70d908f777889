// View of the sessions, the most recently active first.

import { address as made, change, go } from "../shell/address.js";
import { ask } from "../shell/ask.js";
import { button, h, link, toast } from "../shell/elements.js";
import { choice, scrolled } from "../shell/pieces.js";
import { ago, clock, compact, cost, count, plain } from "../shell/words.js";

const WINDOWS = [["1h", "1 h"], ["24h", "24 h"], ["7d", "7 d"], ["30d", "30 d"]];

export async function show(place, address, signal) {
  const body = h("tbody", { on: { click: open } });
  const more = h("div", { class: "more" });
  let question = new URLSearchParams();

  async function read(cursor) {
    const query = new URLSearchParams({ ...Object.fromEntries(question), limit: "50", ...(cursor ? { cursor } : {}) });
    const { sessions, next } = await ask(`/v1/sessions?${query}`, { signal });
    if (!cursor) body.replaceChildren();
    body.append(...sessions.map(rowOf));
    more.replaceChildren(next ? button("Show more", () => read(next).catch(({ message }) => toast(message))) : "");
    return sessions.length;
  }

  async function draw({ query }) {
    const from = query.get("from") ?? "7d";
    question = new URLSearchParams({ from });
    if (query.get("user")) question.set("user", query.get("user"));
    const found = await read();
    place.replaceChildren(
      h(
        "div",
        { class: "page" },
        h(
          "div",
          { class: "heading" },
          h("h1", {}, "Sessions"),
          query.get("user") &&
            h(
              "span",
              { class: "chip" },
              h("span", {}, `user: ${plain(query.get("user"))}`),
              button("×", () => change({ user: null }), { "aria-label": "All users" }),
            ),
          h(
            "span",
            { class: "end" },
            choice("Window of time", WINDOWS, from, (value) => change({ from: value })),
          ),
        ),
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
              h("h2", {}, "No conversation in this window"),
              h(
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
      cost(session.cost_usd),
    ),
    h("td", { class: "number quiet", title: clock(session.ended_at) }, ago(session.ended_at)),
  );
}

/** What was asked and answered last, else how the session began. */
function saidIn({ asked, answered, first_prompt: first, name }) {
  const texts = [asked ?? first ?? name, answered].filter(Boolean).map(plain);
  return h("td", { class: "cut", title: texts.join("\n\n").slice(0, 600) }, texts.join(" → "));
}
