// jsdiff as an ES module: its package has none in a single file.

import "./diff.min.js";

/** @type {any} */
const library = globalThis["Diff"];

export const diffWordsWithSpace = library.diffWordsWithSpace;
export const diffLines = library.diffLines;
export const diffArrays = library.diffArrays;
