// Player: moves the playhead through the run and notifies its listeners.

import { button, h } from "../shell/elements.js";
import { cost, count, duration } from "../shell/words.js";

const SPEEDS = [
  ["fit", "in 15 s"],
  ["0.1", "0.1×"],
  ["0.5", "0.5×"],
  ["1", "1×"],
  ["2", "2×"],
  ["10", "10×"],
  ["100", "100×"],
];
const FIT_MS = 15_000;

export class Player {
  /** `onPlay` is called when playing starts. */
  constructor({ onMoment, onPlay }) {
    this.moment = 0;
    this.playing = false;
    this.onMoment = onMoment;
    this.onPlay = onPlay;
    this.toggleButton = button("▶", () => this.toggle(), {
      class: "play",
      "aria-label": "Play",
      title: "Play or pause (space)",
    });
    this.speed = h(
      "select",
      { "aria-label": "Speed", title: "How fast: the whole run in 15 seconds, or so many times as fast as it was" },
      SPEEDS.map(([value, text]) => h("option", { value }, text)),
    );
    this.scrubber = h("input", {
      type: "range", min: 0, max: 1000, step: 1, value: 1000, "aria-label": "Moment of the run",
      on: { input: () => { this.pause(); this.seek((this.scrubber.value / 1000) * this.run.length); } },
    });
    this.clock = h("span", { class: "player-clock" });
    this.figures = {};
    const figure = (name, label) => {
      this.figures[name] = h("b", {});
      return h("span", { class: "figure" }, this.figures[name], ` ${label}`);
    };
    this.element = h(
      "div",
      { class: "player", role: "group", "aria-label": "Player" },
      button(
        "|‹",
        () => {
          this.pause();
          this.seek(0);
        },
        { "aria-label": "To the beginning", title: "To the beginning (Home)" },
      ),
      button("‹", () => this.step(-1), { "aria-label": "Event before", title: "Event before (,)" }),
      this.toggleButton,
      button("›", () => this.step(1), { "aria-label": "Next event", title: "Next event (.)" }),
      button(
        "›|",
        () => {
          this.pause();
          this.seek(this.run.length);
        },
        { "aria-label": "To the end", title: "To the end (End)" },
      ),
      this.speed,
      this.scrubber,
      this.clock,
      h(
        "span",
        { class: "figures" },
        figure("ended", "steps done"),
        figure("going", "running"),
        figure("tokens", "tokens"),
        figure("cost", "cost"),
      ),
    );
  }

  /** A run that grew: a playhead at its end stays at its end. */
  set(run, moments) {
    const atEnd = !this.run || this.moment >= this.run.length;
    this.run = run;
    this.moments = moments;
    this.seek(atEnd && !this.playing ? run.length : this.moment);
  }

  seek(moment) {
    this.moment = Math.min(this.run.length, Math.max(0, moment));
    this.scrubber.value = Math.round((this.moment / this.run.length) * 1000);
    const spoken = `${duration(this.moment)} of ${duration(this.run.length)}`;
    this.scrubber.setAttribute("aria-valuetext", spoken);
    this.clock.textContent = `${duration(this.moment)} / ${duration(this.run.length)}`;
    const sums = this.run.at(this.moment);
    this.figures.ended.textContent = count(sums.ended);
    this.figures.ended.nextSibling.textContent = sums.ended === 1 ? " step done" : " steps done";
    this.figures.going.textContent = count(Math.max(0, sums.going));
    const counted = this.run.summary.llm_tokens_used != null;
    this.figures.tokens.textContent = counted ? count(Math.round(sums.tokens)) : "";
    this.figures.tokens.nextSibling.textContent = counted ? " tokens" : "tokens not known";
    const known = this.run.summary.llm_cost_usd != null;
    this.figures.cost.textContent = known ? cost(sums.cost) : "";
    this.figures.cost.nextSibling.textContent = known ? " cost" : "cost not known";
    this.onMoment(this.moment);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.moment >= this.run.length) this.seek(0);
    this.playing = true;
    this.#show();
    this.onPlay();
    let before = performance.now();
    const frame = (now) => {
      if (!this.playing) return;
      const factor = this.speed.value === "fit" ? this.run.length / FIT_MS : Number(this.speed.value);
      this.seek(this.moment + (now - before) * factor);
      before = now;
      if (this.moment >= this.run.length && !this.run.running) this.pause();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  pause() {
    this.playing = false;
    this.#show();
  }

  #show() {
    this.toggleButton.textContent = this.playing ? "❚❚" : "▶";
    this.toggleButton.setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }

  /** To the next moment at which something happened, or the one before. */
  step(by) {
    this.pause();
    const small = 1e-6;
    if (by > 0) this.seek(this.moments.find((each) => each > this.moment + small) ?? this.run.length);
    else this.seek(this.moments.findLast((each) => each < this.moment - small) ?? 0);
  }
}
