// What the page knows of the collector, from its health.

/** Whether a Jaeger is configured. */
export const collector = { jaeger: false };

let known;
/** Resolved when the collector answered for the first time. */
export const collectorKnown = new Promise((resolve) => { known = resolve; });

export function noteCollector({ jaeger = false }) {
  collector.jaeger = jaeger;
  known();
}
