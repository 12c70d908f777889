// Parts of long texts. No elements here.

const SLICE = 16_000;

/**
 * The beginning of a text, up to the end of a line or word; all of it if there is little more.
 * @param {string} text
 * @param {number} most
 */
export function beginning(text, most) {
  if (text.length <= most * 1.1) return text;
  const line = text.lastIndexOf("\n", most);
  const word = text.lastIndexOf(" ", most);
  const at = line > most * 0.8 ? line + 1 : word > most * 0.8 ? word + 1 : whole(text, most);
  return text.slice(0, at);
}

/** A place that is not within a character of two halves. */
function whole(text, at) {
  const code = text.charCodeAt(at - 1);
  return code >= 0xd800 && code <= 0xdbff ? at - 1 : at;
}

/**
 * A text in slices that end with a line where there is one; joined they are the text.
 * @param {string} text
 */
export function slicesOf(text) {
  const slices = [];
  for (let from = 0; from < text.length || !slices.length; ) {
    let to = Math.min(text.length, from + SLICE);
    if (to < text.length) {
      const line = text.lastIndexOf("\n", to - 1);
      to = line > from ? line + 1 : whole(text, to);
    }
    slices.push(text.slice(from, to));
    from = to;
  }
  return slices;
}
