// View of the collector: received, stored, pending and refused records, emitters, quarantine.

import { ask } from "../shell/ask.js";
import { button, h, toast } from "../shell/elements.js";
import { badge, facts, notice, replace, scrolled } from "../shell/pieces.js";
import { NONE, ago, bytes, clock, compact, count, duration, plain, several } from "../shell/words.js";
import { adviceFor } from "./advice.js";
import { by, parseMetrics, sum } from "./metrics.js";

const KINDS = ["events", "spans", "logs", "metrics", "heartbeats", "scores"];
const EVERY_MS = 2000;
/** Records that are pending while none is stored for this long are stuck. */
const STUCK_MS = 10_000;

export async function show(place, address, signal) {
  let before = null;
  let stillSince = null;
  let last = null;
  const unread = await ask("/v1/unread-attributes?limit=50", { signal }).catch(() => ({ attributes: [] }));

  async function read() {
    const [text, ready, emitters, quarantine] = await Promise.all([
      ask("/metrics", { signal }),
      ask("/readyz", { signal }).catch((error) => {
        if (error.kind === "away") throw error;
        return null;
      }),
      ask("/v1/emitters?limit=200", { signal }).catch((error) => {
        // It needs the store; the rest of the page says why that cannot be used.
        if (!["fault", "slow", "busy"].includes(error.kind)) throw error;
        return { emitters: null };
      }),
      ask("/v1/quarantine?limit=20", { signal }),
    ]);
    const samples = parseMetrics(text);
    const now = { at: performance.now(), received: total(samples, "received"), stored: total(samples, "stored") };
    const seconds = before ? (now.at - before.at) / 1000 : null;
    const waits = sum(samples, "tracereel_records_pending") > 0;
    // One reading between two inserts means nothing; only a longer standstill does.
    if (!waits || !before || now.stored > before.stored) stillSince = now.at;
    const stuck = now.at - stillSince > STUCK_MS;
    const rate = (name) => (seconds ? Math.max(0, (now[name] - before[name]) / seconds) : null);
    last = {
      at: new Date().toISOString(),
      samples,
      ready,
      emitters: emitters.emitters,
      quarantine: quarantine.entries,
      receivedRate: rate("received"),
      storedRate: rate("stored"),
      stuck,
    };
    draw(last);
    before = now;
  }

  function draw(state) {
    const open = [...place.querySelectorAll("details[open]")].map((each) => each.dataset.key);
    const advice = adviceFor(state);
    replace(
      place,
      h(
        "div",
        { class: "page" },
        h(
          "div",
          { class: "heading" },
          h("h1", {}, "Collector"),
          h(
            "span",
            { class: "quiet" },
            state.awaySince
              ? "unreachable"
              : state.ready
                ? storeOf(state.ready.store)
                : "not ready",
          ),
        ),
        advice.map(({ kind, title, text }) => notice(kind, h("span", {}, h("b", {}, title), " ", text))),
        flow(state),
        kinds(state.samples),
        refusals(state.samples),
        emitterTable(state.emitters),
        unreadTable(unread.attributes),
        quarantineTable(state.quarantine, read, open),
      ),
    );
  }

  /** Keeps the last figures of an unreachable collector, with their time. */
  function old(error) {
    if (error.kind === "away" && !signal.aborted) draw({ ...last, awaySince: last.at });
  }

  await read();
  const beat = setInterval(() => {
    if (!document.hidden && !place.contains(document.querySelector(":focus-within button:focus"))) read().catch(old);
  }, EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(beat));
}

function total(samples, name) {
  return sum(samples, `tracereel_records_${name}_total`);
}

function flow({ samples, ready, receivedRate, storedRate, stuck }) {
  const pending = sum(samples, "tracereel_records_pending");
  const inserts = sum(samples, "tracereel_insert_seconds_count");
  const lag = !pending
    ? duration(0)
    : stuck
      ? "not moving"
      : duration(sum(samples, "tracereel_queue_oldest_seconds") * 1000);
  const box = (name, value, hint, kind = "") =>
    h(
      "div",
      { class: `flow-box ${kind}` },
      h("span", { class: "quiet" }, name),
      h("b", {}, compact(value)),
      h("small", { class: "quiet" }, hint),
    );
  const quarantined = total(samples, "quarantined") - total(samples, "retried");
  const rejected = total(samples, "rejected");
  return h(
    "section",
    { "aria-label": "From received to stored" },
    h(
      "div",
      { class: "flow" },
      box("Received", total(samples, "received"), receivedRate == null ? "records" : `${compact(receivedRate)} /s`),
      h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
      box("On disk", total(samples, "appended"), "acknowledged"),
      h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
      box("Waiting", pending, bytes(ready?.queue.pending_bytes ?? sum(samples, "tracereel_queue_pending_bytes"))),
      h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
      box("Stored", total(samples, "stored"), storedRate == null ? "records" : `${compact(storedRate)} /s`),
    ),
    facts([
      ["Lag", lag, "How long the oldest record that is not stored has waited", stuck ? "bad" : ""],
      ["Refused", count(rejected), "Records that were not accepted; the reasons are below", rejected ? "warn" : ""],
      ["Duplicates", count(total(samples, "duplicate")), "Sent twice, kept once"],
      [
        "In quarantine",
        count(Math.max(0, quarantined)),
        "Accepted, but the store refused their content",
        quarantined > 0 ? "bad" : "",
      ],
      [
        "Insert",
        inserts ? duration((sum(samples, "tracereel_insert_seconds_sum") / inserts) * 1000) : NONE,
        "How long the store takes for a delivery, on average",
      ],
      ["Insert retries", count(sum(samples, "tracereel_insert_retries_total")), "Deliveries that were retried"],
      ["Engine restarts", count(sum(samples, "tracereel_engine_restarts_total")), "Restarts of the store"],
      [
        "Live streams",
        count(sum(samples, "tracereel_tail_streams_total") - sum(samples, "tracereel_tail_ended_total")),
        "Open now",
      ],
    ]),
  );
}

const COLUMNS = {
  received: "Came in",
  rejected: "Refused at the door",
  appended: "Accepted, and safe on disk",
  duplicate: "Sent twice, kept once",
  stored: "In the store",
  quarantined: "Refused by the store",
  relayed: "Handed to the collector that owns them",
  pending: "On disk, not in the store yet",
};

function kinds(samples) {
  const columns = Object.keys(COLUMNS).filter((name) => name !== "relayed" || total(samples, "relayed"));
  const value = (kind, column) =>
    column === "pending"
      ? sum(samples, "tracereel_records_pending", { kind })
      : sum(samples, `tracereel_records_${column}_total`, { kind });
  return h(
    "section",
    {},
    h("h2", {}, "By kind"),
    scrolled(
      "By kind",
      h(
        "table",
        { class: "grid" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Kind"),
            columns.map((each) => h("th", { scope: "col", class: "number", title: COLUMNS[each] }, each)),
          ),
        ),
        h(
          "tbody",
          {},
          KINDS.map((kind) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, kind),
              columns.map((column) => {
                const found = value(kind, column);
                return h(
                  "td",
                  { class: `number ${!found ? "quiet" : ["rejected", "quarantined"].includes(column) ? "bad" : ""}` },
                  count(found),
                );
              }),
            ),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "quiet" },
      "received = rejected + appended, and appended = stored + duplicate + quarantined - retried + relayed + pending.",
    ),
  );
}

const REASONS = {
  bad_json: "not JSON, or not readable as what it says it is",
  bad_field: "a field is missing or has the wrong type",
  bad_timestamp: "not a timestamp",
  unknown_type: "an event type that is not known",
  too_large: "larger than allowed",
  too_deep: "nested too deeply",
  tenant_claim: "claims another tenant",
  session_owner: "belongs to another user's session",
  deleted: "belongs to a run that was deleted",
};

function refusals(samples) {
  const found = [
    ...by(samples, "tracereel_records_rejected_total", "reason"),
    ...by(samples, "tracereel_access_refused_total", "reason").map(([name, times]) => [`access: ${name}`, times]),
  ];
  if (!found.length) return null;
  return h(
    "section",
    {},
    h("h2", {}, "Refused"),
    h(
      "table",
      { class: "grid narrow" },
      h(
        "thead",
        {},
        h("tr", {}, h("th", { scope: "col" }, "Reason"), h("th", { scope: "col", class: "number" }, "Records")),
      ),
      h(
        "tbody",
        {},
        found.map(([reason, times]) =>
          h(
            "tr",
            {},
            h(
              "td",
              {},
              h("code", {}, plain(reason)),
              REASONS[reason] && h("span", { class: "quiet" }, ` ${REASONS[reason]}`),
            ),
            h("td", { class: "number" }, count(times)),
          ),
        ),
      ),
    ),
  );
}

const STATES = { alive: "running", silent: "crashed", ended: "success", recovered: "success", unknown: "unknown" };

function emitterTable(emitters) {
  return h(
    "section",
    {},
    h("h2", {}, "Emitters"),
    emitters?.length
      ? scrolled(
          "Emitters",
          h(
            "table",
            { class: "grid" },
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                [
                  ["State", ""],
                  ["Service", ""],
                  ["Process", "", "Host and process id"],
                  ["Last heard", "number"],
                  ["Claimed", "number", "Events it says it has recorded"],
                  ["Stored", "number", "Events of it that are stored"],
                  ["Missing", "number", "Numbered by the emitter, and neither stored nor pending"],
                  ["Spooled", "number", "Still on its own disk"],
                ].map(([title, kind, hint]) => h("th", { scope: "col", class: kind, title: hint }, title)),
              ),
            ),
            h(
              "tbody",
              {},
              emitters.map((each) =>
                h(
                  "tr",
                  { title: plain(each.emitter_id) },
                  h(
                    "td",
                    {},
                    h(
                      "span",
                      { class: `badge s-${STATES[each.state] ?? "unknown"}` },
                      h("i", { "aria-hidden": "true" }, each.state === "alive" ? "●" : "○"),
                      each.state,
                    ),
                  ),
                  h("td", { class: "cut", title: plain(each.service ?? "") }, plain(each.service ?? "")),
                  h("td", { class: "quiet" }, plain([each.host, each.pid].filter(Boolean).join(" "))),
                  h("td", { class: "number quiet" }, ago(each.last_heartbeat_at ?? each.last_event_at)),
                  h("td", { class: "number" }, count(each.claimed)),
                  h("td", { class: "number" }, count(each.stored)),
                  h("td", { class: `number ${each.missing ? "bad" : "quiet"}` }, count(each.missing)),
                  h("td", { class: "number quiet" }, count(each.spooled)),
                ),
              ),
            ),
          ),
        )
      : h(
          "p",
          { class: "quiet" },
          emitters ? "No emitter has sent anything yet." : "Not known: the store cannot be read.",
        ),
  );
}

function quarantineTable(entries, read, open) {
  if (!entries.length)
    return h("section", {}, h("h2", {}, "Quarantine"), h("p", { class: "quiet" }, "Nothing was refused by the store."));
  const act = async (method, path, said) => {
    try {
      await ask(path, { method });
      toast(said);
      await read();
    } catch (error) {
      toast([error.message, error.hint].filter(Boolean).join(" · "));
    }
  };
  return h(
    "section",
    {},
    h("h2", {}, "Quarantine"),
    h(
      "table",
      { class: "grid" },
      h(
        "tbody",
        {},
        entries.map((each) =>
          h(
            "tr",
            {},
            h("td", {}, `#${each.id}`),
            h(
              "td",
              {},
              badge("failed"),
              " ",
              plain(each.kind),
              ` ${several(each.records, "record")}, ${bytes(each.bytes)}`,
            ),
            h("td", { class: "quiet" }, clock(each.quarantined)),
            h(
              "td",
              {},
              h(
                "details",
                { "data-key": `q${each.id}`, open: open.includes(`q${each.id}`) },
                h("summary", {}, plain(each.reason).slice(0, 120)),
                h("pre", { class: "value" }, plain(each.reason)),
              ),
            ),
            h(
              "td",
              { class: "number" },
              button("Retry", () => act("POST", `/v1/quarantine/${each.id}/retry`, "It is delivered again"), {
                class: "small",
              }),
              " ",
              button(
                "Drop",
                () => {
                  if (confirm(`Drop ${several(each.records, "record")} for good?`))
                    act("DELETE", `/v1/quarantine/${each.id}`, "Dropped");
                },
                { class: "small" },
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

function storeOf({ kind, engine, answers }) {
  return `store ${plain(kind)}, ${plain(engine ?? (answers ? "ready" : "unreachable"))}`;
}

/** Names of attributes that no dialect reads; nothing if there are none. */
function unreadTable(names) {
  if (!names.length) return null;
  return h(
    "section",
    {},
    h("h2", {}, "Attributes that no dialect reads"),
    h("p", { class: "quiet" },
      "Of the last day, on spans of models, tools and agents. They are stored; no column has them."),
    scrolled(
      "Attributes that no dialect reads",
      h(
        "table",
        { class: "grid" },
        h("thead", {}, h("tr", {}, [
          h("th", { scope: "col" }, "Attribute"),
          h("th", { scope: "col" }, "Instrumentation"),
          h("th", { scope: "col", class: "number" }, "Spans"),
        ])),
        h("tbody", {}, names.map((each) => h("tr", {}, [
          h("td", {}, plain(each.name)),
          h("td", {}, plain(each.scope ?? NONE)),
          h("td", { class: "number" }, count(each.spans)),
        ]))),
      ),
    ),
  );
}
