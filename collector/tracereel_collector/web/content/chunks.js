// Work in small pieces, a few milliseconds a frame, so that the page answers meanwhile.

const SLICE_MS = 8;

/** Waits for the next frame; a tab that is not seen has none. */
function nextFrame() {
  return new Promise((resume) => {
    const timer = setTimeout(resume, 200, null);
    requestAnimationFrame(() => {
      clearTimeout(timer);
      resume(null);
    });
  });
}

/**
 * Calls `each` for every item, in order; stops when the signal does.
 * @template T
 * @param {Iterable<T>} items
 * @param {(item: T, at: number) => void} each
 * @param {AbortSignal} [signal]
 */
export async function inChunks(items, each, signal) {
  let until = performance.now() + SLICE_MS;
  let at = 0;
  for (const item of items) {
    if (performance.now() > until) {
      await nextFrame();
      until = performance.now() + SLICE_MS;
    }
    if (signal?.aborted) return;
    each(item, at);
    at += 1;
  }
}
