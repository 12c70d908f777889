// Keyboard shortcuts, global and of the current view, and their help.

import { h } from "./elements.js";
import { go } from "./address.js";

const EVERYWHERE = {
  "?": ["Show these keys", () => showHelp()],
  "g r": ["Runs", () => go("runs")],
  "g a": ["Agents", () => go("agents")],
  "g s": ["Sessions", () => go("sessions")],
  "g c": ["Collector", () => go("collector")],
};
const SIGNS = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" };
let own = {};
let first = "";
let forget;

/** Sets the keys of a view: key name to `[description, action]`. */
export function useKeys(keys) {
  own = keys;
}

/** Whether keys go into an element as text. */
export function typing(target) {
  return (
    target instanceof HTMLElement &&
    (target.matches("input:not([type=range]), textarea, select") || target.isContentEditable)
  );
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.target instanceof HTMLElement ? event.target : null;
  if (typing(target)) {
    if (event.key === "Escape") {
      event.preventDefault(); // a search field would be emptied
      target.blur();
    }
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  const name = event.key === " " ? "Space" : event.key;
  if ((name === "Enter" || name === "Space") && target?.matches("button, a, summary, select")) return;
  if (name.startsWith("Arrow") && target?.matches("[type=range]")) return;
  const keys = { ...EVERYWHERE, ...own };
  const found = keys[`${first} ${name}`] ?? keys[name];
  clearTimeout(forget);
  first = "";
  if (found) {
    event.preventDefault();
    found[1](event);
  } else if (Object.keys(keys).some((each) => each.startsWith(`${name} `))) {
    first = name;
    forget = setTimeout(() => { first = ""; }, 1000);
  }
});

/** Groups keys by their description. */
function byMeaning(keys) {
  const meanings = new Map();
  for (const [name, [what]] of Object.entries(keys)) meanings.set(what, [...(meanings.get(what) ?? []), name]);
  return meanings;
}

export function showHelp() {
  const rows = (keys) =>
    [...byMeaning(keys)].map(([what, names]) =>
      h(
        "div",
        {},
        h(
          "dt",
          {},
          names.map((name, at) => [at > 0 && " or ", name.split(" ").map((key) => h("kbd", {}, SIGNS[key] ?? key))]),
        ),
        h("dd", {}, what),
      ),
    );
  const dialog = h("dialog", { class: "help", "aria-label": "Keyboard shortcuts" },
    h("h2", {}, "Keys"), h("dl", {}, rows(own), rows(EVERYWHERE)),
    h("form", { method: "dialog" }, h("button", { class: "primary", autofocus: true }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
