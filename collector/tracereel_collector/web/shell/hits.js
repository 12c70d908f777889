// Finds searched words and phrases in a text, as the collector's index does: words are letters and digits.

const WORD = /[0-9A-Za-z\u0080-\uffff]+/g;
const QUOTED = /"([^"]*)"/g;

/** The words and phrases of a search, in lower case. */
export function wantedOf(text) {
  const lower = text.toLowerCase();
  const phrases = [...lower.matchAll(QUOTED)].map(([, phrase]) => phrase.trim()).filter(Boolean);
  const words = lower.replace(QUOTED, " ").match(WORD) ?? [];
  return { phrases: [...new Set(phrases)], words: [...new Set(words)] };
}

export function isEmpty({ phrases, words }) {
  return !phrases.length && !words.length;
}

/**
 * Places of the hits in a text, as `[start, end]` in order, at most `most`.
 * @param {string} text
 * @param {{ phrases: string[], words: string[] }} wanted
 * @param {{ whole?: boolean, most?: number }} [options] `whole`: only whole words
 */
export function hitsIn(text, { phrases, words }, { whole = true, most = 1000 } = {}) {
  const lower = text.toLowerCase();
  const found = [];
  const look = (part) => {
    for (let at = lower.indexOf(part); at >= 0 && found.length < most; at = lower.indexOf(part, at + part.length))
      found.push([at, at + part.length]);
  };
  for (const phrase of phrases) look(phrase);
  const present = words.filter((word) => lower.includes(word));
  if (!whole) for (const word of present) look(word);
  else if (present.length) {
    const set = new Set(present);
    for (const match of lower.matchAll(WORD)) {
      if (found.length >= most) break;
      if (set.has(match[0])) found.push([match.index, match.index + match[0].length]);
    }
  }
  return found.sort((a, b) => a[0] - b[0]).filter(([start], at, all) => at === 0 || start >= all[at - 1][1]);
}

/** Whether a text has all of the words and phrases, or with `some` one of them. */
export function matches(text, { phrases, words }, { whole = true, some = false } = {}) {
  const lower = text.toLowerCase();
  const all = [...phrases, ...words];
  const has = (part) => lower.includes(part);
  if (some ? !all.some(has) : !all.every(has)) return false;
  if (!whole || !words.length) return true;
  const there = new Set(lower.match(WORD));
  return some ? phrases.some(has) || words.some((word) => there.has(word)) : words.every((word) => there.has(word));
}

/** A text in pieces: `[piece, whether it is a hit]`. */
export function pieces(text, wanted, options) {
  const made = [];
  let from = 0;
  for (const [start, end] of hitsIn(text, wanted, options)) {
    if (start > from) made.push([text.slice(from, start), false]);
    made.push([text.slice(start, end), true]);
    from = end;
  }
  if (from < text.length) made.push([text.slice(from), false]);
  return made;
}
