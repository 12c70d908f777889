// The line between waterfall and panel: dragged, or moved with the keys; the width is remembered.

import { h } from "../shell/elements.js";
import { NARROWEST, widthOf, widthsOf } from "./panel_width.js";

const STEP = 32;

/** @param {HTMLElement} main the element with both sides */
export function splitter(main, signal) {
  const line = h("div", {
    class: "splitter",
    role: "separator",
    tabindex: "0",
    "aria-orientation": "vertical",
    "aria-label": "Width of the panel",
    "aria-controls": "panel",
    title: "Drag, or use the arrow keys; double click for the usual width",
  });
  let wanted = remembered();

  function apply() {
    const { least, most, usual } = widthsOf(main.clientWidth);
    const width = widthOf(wanted, main.clientWidth);
    main.style.setProperty("--panel", `${width}px`);
    line.setAttribute("aria-valuemin", String(least));
    line.setAttribute("aria-valuemax", String(most));
    line.setAttribute("aria-valuenow", String(width));
    line.setAttribute(
      "aria-valuetext",
      `${width} pixels${wanted == null || width === usual ? ", the usual width" : ""}`,
    );
  }

  function set(width) {
    wanted = width == null ? null : widthOf(width, main.clientWidth);
    apply();
    if (wanted == null) localStorage.removeItem("panel");
    else localStorage.setItem("panel", String(wanted));
  }

  line.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    line.setPointerCapture(event.pointerId);
    line.classList.add("dragged");
  });
  line.addEventListener("pointermove", (event) => {
    if (line.hasPointerCapture(event.pointerId)) set(Math.round(main.getBoundingClientRect().right - event.clientX));
  });
  line.addEventListener("lostpointercapture", () => line.classList.remove("dragged"));
  line.addEventListener("dblclick", () => set(null));
  line.addEventListener("keydown", (event) => {
    const { least, most } = widthsOf(main.clientWidth);
    const now = widthOf(wanted, main.clientWidth);
    const to = { ArrowLeft: now + STEP, ArrowRight: now - STEP, Home: least, End: most }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    set(to);
  });
  const watch = new ResizeObserver(apply);
  watch.observe(main);
  signal.addEventListener("abort", () => watch.disconnect());
  return line;
}

function remembered() {
  const width = Number(localStorage.getItem("panel"));
  return width >= NARROWEST ? width : null;
}
