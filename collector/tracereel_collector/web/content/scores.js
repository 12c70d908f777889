// Scores of a run, a step or a session, and a form to give one.

import { ask } from "../shell/ask.js";
import { button, h, toast } from "../shell/elements.js";
import { typing } from "../shell/shortcuts.js";
import { ago, clock, count, plain } from "../shell/words.js";
import { scoreOf, scoresOf } from "./score_model.js";

const MOST = 1_000;
let forms = 0;

export class ScoreBox {
  /**
   * Of a run or of a session; `onSaved` is called with all scores after one is given.
   * @param {{ trace?: string, session?: string, signal: AbortSignal, onSaved?: (scores: any[]) => void }} options
   */
  constructor({ trace, session, signal, onSaved = () => {} }) {
    this.rated = session == null ? { trace } : { session };
    this.onSaved = onSaved;
    this.signal = signal;
    // Beside the scores of its turns, those of a session are a section of the page.
    this.heading = session == null ? "h3" : "h2";
    const label = session == null ? "Scores" : "Scores of the session";
    this.element = h("section", { class: "scores", "aria-label": label });
    this.scores = null;
    this.target = null;
    this.form = null;
    /** Whether the form is to be opened when it is there. */
    this.wanted = false;
  }

  /**
   * Shows the scores of a step, or of the run as a whole.
   * @param {{ step?: string, executions?: string[] }} target
   */
  show(target) {
    const before = this.target;
    this.target = target;
    // A form that is being filled in stays as it is, with its focus.
    if (before?.step !== target.step) {
      this.form?.remove();
      this.form = null;
      this.wanted = false;
    }
    if (!this.scores) {
      if (!this.reading) this.#read();
    } else if (!this.form || String(before.executions) !== String(target.executions)) this.#draw();
  }

  /** Opens the form with the focus in it, as soon as it is there. */
  open() {
    if (this.form) {
      this.form.open = true;
      this.form.querySelector("input").focus();
    } else {
      this.wanted = true;
      if (!this.reading) this.#read();
    }
  }

  async #read() {
    this.reading = true;
    const { trace, session } = this.rated;
    const rated = session == null ? { trace_id: trace } : { session };
    const query = new URLSearchParams({ ...rated, limit: String(MOST) });
    try {
      this.scores = (await ask(`/v1/scores?${query}`, { signal: this.signal })).scores;
      this.#draw();
    } catch (error) {
      // The run is readable without its scores.
      if (!this.signal.aborted) this.#fill(h("p", { class: "quiet" }, plain(error.message)));
    } finally {
      this.reading = false;
    }
  }

  #draw() {
    const shown = scoresOf(this.scores, this.target);
    const list =
      shown.length > 0 &&
      h("ul", {}, shown.slice(0, 50).map(rowOf), shown.length > 50 && h("li", {}, `${count(shown.length - 50)} more`));
    const given = h("span", { class: "quiet" }, shown.length ? count(shown.length) : "none yet");
    const head = h(this.heading, {}, "Scores ", given);
    if (!this.form) this.element.append((this.form = this.#form()));
    this.#fill(head, ...(list ? [list] : []));
    // Meanwhile the reader may have begun to type elsewhere.
    if (this.wanted && !typing(document.activeElement)) this.open();
    this.wanted = false;
  }

  /** Replaces what is above the form. The form is not moved: what is moved loses the focus. */
  #fill(...made) {
    for (const each of [...this.element.children]) if (each !== this.form) each.remove();
    this.element.prepend(...made);
  }

  #form() {
    forms += 1;
    const id = `score-${forms}`;
    const field = (name, label, properties) => [
      h("label", { for: `${id}-${name}` }, label),
      h("input", { id: `${id}-${name}`, name, autocomplete: "off", ...properties }),
    ];
    const names = [...new Set(this.scores.map((score) => score.name))].slice(0, 50);
    const said = h("p", { class: "bad", role: "alert" });
    const form = h(
      "form",
      {},
      field("name", "Name", { required: true, maxlength: "200", list: `${id}-names`, placeholder: "correct" }),
      h("datalist", { id: `${id}-names` }, names.map((name) => h("option", { value: plain(name) }))),
      field("value", "Value", { maxlength: "1000", placeholder: "0.8, true, or a word" }),
      field("comment", "Comment", { maxlength: "20000" }),
      h("div", { class: "acts" }, h("button", { class: "primary" }, "Save score")),
      said,
    );
    const made = h("details", {}, h("summary", {}, "Give a score"), form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send(form, said, made);
    });
    return made;
  }

  async #send(form, said, made) {
    const given = Object.fromEntries(new FormData(form));
    const score = scoreOf(given, { ...this.rated, ...this.target });
    const save = form.querySelector("button");
    save.disabled = true;
    said.textContent = "";
    try {
      await ask("/v1/scores?wait=stored", {
        method: "POST",
        body: JSON.stringify(score),
        headers: { "Content-Type": "application/json" },
        signal: this.signal,
      });
      toast("Score saved");
      const isShown = this.form === made;
      made.remove();
      if (isShown) this.form = null;
      await this.#read();
      this.onSaved(this.scores);
      if (isShown && document.activeElement === document.body)
        this.element.querySelector("summary")?.focus({ preventScroll: true });
    } catch (error) {
      if (!this.signal.aborted)
        said.textContent =
          error.kind === "scope" ? "This key may only read: scores need the scope write." : plain(error.message);
    } finally {
      save.disabled = false;
    }
  }
}

function rowOf({ name, value, value_type: kind, comment, author, source, updated_at: at }) {
  const said = kind === "note" ? null : kind === "boolean" ? (value ? "✓ true" : "✕ false") : String(value);
  const by = [author || source, at && ago(at)].filter(Boolean).join(", ");
  return h(
    "li",
    {},
    h("b", {}, plain(name)),
    said != null && h("span", {}, ` ${plain(said)}`),
    h("span", { class: "quiet", title: clock(at) }, ` ${plain(by)}`),
    comment && h("p", {}, plain(comment)),
  );
}

/** A button that leads to the form. */
export function scoreButton(box) {
  return button("Score", () => box.open(), { class: "small", title: "Give a score" });
}
