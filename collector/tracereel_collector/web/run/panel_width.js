// Width of the panel of a run. No elements here.

export const NARROWEST = 300;
/** The waterfall keeps this much. */
const WATERFALL = 360;
/** Lines longer than this are hard to read. */
const COMFORTABLE = 820;

/** @param {number} room width of waterfall and panel together */
export function widthsOf(room) {
  const most = Math.max(NARROWEST, room - WATERFALL);
  return { least: NARROWEST, most, usual: Math.min(most, COMFORTABLE, Math.max(NARROWEST, Math.round(room * 0.48))) };
}

/**
 * The width for a wish, which may be that of a larger window.
 * @param {number | null} wanted
 * @param {number} room
 */
export function widthOf(wanted, room) {
  const { least, most, usual } = widthsOf(room);
  return wanted == null ? usual : Math.min(most, Math.max(least, Math.round(wanted)));
}
