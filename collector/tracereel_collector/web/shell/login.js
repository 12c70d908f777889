// Login: exchanges a key for a session cookie that scripts cannot read.

import { h } from "./elements.js";
import { ask } from "./ask.js";

export function showLogin(again) {
  const field = h("input", {
    id: "key",
    type: "password",
    autocomplete: "current-password",
    required: true,
    spellcheck: "false",
  });
  const said = h("p", { class: "bad", role: "alert" });
  async function submit(event) {
    event.preventDefault();
    said.textContent = "";
    try {
      await ask("/v1/login", { method: "POST", headers: { "x-api-key": field.value.trim() } });
      field.value = "";
      noteLogin(true);
      again?.();
    } catch (refusal) {
      const words = [refusal.message, refusal.kind === "key" ? "" : refusal.hint].filter(Boolean).join(" · ");
      said.textContent = words.charAt(0).toUpperCase() + words.slice(1);
      field.select();
    }
  }
  queueMicrotask(() => field.focus());
  return h(
    "section",
    { class: "state" },
    h("h1", {}, "Log in with a key"),
    h("p", {}, "This collector has keys. One with the scope ", h("code", {}, "read"), " opens the page."),
    h(
      "form",
      { class: "login", on: { submit } },
      h("label", { for: "key" }, "Key"),
      field,
      h("button", { class: "primary" }, "Log in"),
    ),
    said,
    h("p", { class: "quiet" }, "An operator makes one with ", h("code", {}, "tracereel keys create --scope read"), "."),
  );
}

/** Whether the button to log out is there; remembered, because scripts cannot see the cookie. */
export function noteLogin(loggedIn) {
  if (loggedIn) localStorage.setItem("logged-in", "yes");
  else localStorage.removeItem("logged-in");
  showLogout();
}

export function showLogout() {
  document.getElementById("logout").hidden = localStorage.getItem("logged-in") !== "yes";
}

export async function logOut() {
  await ask("/v1/logout", { method: "POST" });
  noteLogin(false);
  localStorage.removeItem("views"); // they hold names of users and agents, which the next user may not see
  location.reload();
}
