// The address holds the state of the page, `#/view/part?name=value`, so that every view can be linked.

/** Parses the current address. An old link, `#TRACE_ID`, is a run. */
export function here() {
  const { hash } = location;
  const text = hash.slice(1);
  if (text && !text.startsWith("/") && text !== "main") {
    let id = text;
    try { id = decodeURIComponent(text); } catch { /* not an escape after all */ }
    return { hash, view: "run", parts: [id], query: new URLSearchParams() };
  }
  const [path, ...rest] = text.split("?");
  const parts = path.split("/").filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { hash, view: parts[0] ?? "runs", parts: parts.slice(1), query: new URLSearchParams(rest.join("?")) };
}

/**
 * The address of a view.
 * @param {string} view
 * @param {any[]} [parts]
 * @param {any} [query] values by name, or URLSearchParams
 */
export function address(view, parts = [], query) {
  const path = [view, ...parts].map(encodeURIComponent).join("/");
  const text = query ? String(query instanceof URLSearchParams ? query : new URLSearchParams(query)) : "";
  return `#/${path}${text ? `?${text}` : ""}`;
}

/**
 * Goes to the address of a view.
 * @param {string} view
 * @param {any[]} [parts]
 * @param {any} [query]
 */
export function go(view, parts, query) {
  location.hash = address(view, parts, query);
}

/** Changes the query of the present address; `replace` leaves no step in the history. */
export function change(changes, { replace = false, silent = false } = {}) {
  const { view, parts, query } = here();
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const each of [value].flat()) if (each != null && each !== "") query.append(name, each);
  }
  const made = address(view, parts, query);
  if (made === location.hash) return;
  if (silent) history.replaceState(null, "", made);
  else if (replace) location.replace(made);
  else location.hash = made;
}

let runs = new URLSearchParams();

/** Keeps the filters of the list of runs, for the ways back to it. */
export function rememberRuns(query) {
  runs = query;
}

/** The address of the list of runs with its last filters. */
export function runsAddress() {
  return address("runs", [], runs);
}
