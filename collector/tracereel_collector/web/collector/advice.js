// Problems of the collector with advice; also says when there is none.

import { bytes, clock, several } from "../shell/words.js";
import { sum } from "./metrics.js";

const MANY_BYTES = 256 * 1024 * 1024;

/** `[{kind, title, text}]`, the worst first. */
export function adviceFor({ samples, ready, emitters, quarantine, stuck, awaySince }) {
  if (awaySince)
    return [
      {
        kind: "bad",
        title: "The collector is unreachable.",
        text:
          `The figures below are of ${clock(awaySince)}.` +
          " Agents keep their events on disk meanwhile; this page retries by itself.",
      },
    ];
  const found = [];
  const say = (kind, title, text) => found.push({ kind, title, text });
  const pending = sum(samples, "tracereel_records_pending");
  const waiting = sum(samples, "tracereel_queue_pending_bytes");
  if (!ready || !ready.queue.accepts)
    say(
      "bad",
      "No data is accepted.",
      "The disk is full or cannot be written. Free space in the data directory; emitters keep their events until then.",
    );
  if (ready && !ready.store.answers)
    say(
      "bad",
      "The store is not responding.",
      "Events are kept on disk and delivered when it is back. If it stays away, look at the collector's log.",
    );
  else if (ready?.store.problem)
    say("bad", "The store cannot be used yet.", `Events are kept on disk meanwhile. ${ready.store.problem}`);
  if (waiting > MANY_BYTES)
    say(
      "warn",
      `${bytes(waiting)} wait to be stored.`,
      "More comes in than the store takes. Give it a faster disk, or raise TRACEREEL_MAX_PENDING_BYTES" +
        " so that no sender is refused meanwhile.",
    );
  else if (stuck)
    say(
      "warn",
      `${several(pending, "record")} ${pending === 1 ? "waits" : "wait"} and none is stored.`,
      "The store may be busy or away; nothing is lost meanwhile, and this page shows when it goes on.",
    );
  if (quarantine.length)
    say(
      "bad",
      `${several(quarantine.length, "delivery is", "deliveries are")} in quarantine.`,
      "The store refused their content. Look at the reason below; retry them after an upgrade, or drop them.",
    );
  const rejected = sum(samples, "tracereel_records_rejected_total");
  if (rejected)
    say(
      "warn",
      `${several(rejected, "record was", "records were")} refused at the door.`,
      "The answer to each request names the field and what was expected; the reasons are below.",
    );
  const silent = (emitters ?? []).filter((each) => each.state === "silent");
  if (silent.length)
    say(
      "warn",
      `${several(silent.length, "emitter is", "emitters are")} silent.`,
      "They stopped without a last message, or are cut off." +
        " What they left on disk is sent by the next process that uses their spool.",
    );
  const missing = (emitters ?? []).reduce((total, each) => total + (each.missing ?? 0), 0);
  if (missing)
    say(
      "warn",
      `${several(missing, "event is", "events are")} missing.`,
      "Emitters have numbered them, and they have not arrived. Those that are spooled will come.",
    );
  const restarts = sum(samples, "tracereel_engine_restarts_total");
  if (restarts)
    say(
      "warn",
      `The engine was restarted ${several(restarts, "time")}.`,
      "It stopped by itself; nothing is lost by that. Too little memory is the usual cause.",
    );
  const lost = sum(samples, "tracereel_audit_lines_lost_total");
  if (lost)
    say(
      "warn",
      `${several(lost, "line", "lines")} of the audit log ${lost === 1 ? "was" : "were"} lost.`,
      "They could not be written.",
    );
  if (!found.length)
    say(
      "good",
      "No problems.",
      pending
        ? `${several(pending, "record is", "records are")} pending.`
        : "Everything that was acknowledged is stored.",
    );
  return found;
}
