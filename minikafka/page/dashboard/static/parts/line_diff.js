/** The difference of two texts by lines: what both have, in the longest way, and what one has. */

const MOST_CELLS = 4_000_000; // of the table of lengths; larger texts differ as a whole

/**
 * @typedef {{kind: "same"|"gone"|"new", text: string}} DiffLine
 * @param {string} before @param {string} after
 * @returns {DiffLine[]}
 */
export function diffLines(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const marked = (/** @type {DiffLine["kind"]} */ kind, /** @type {string[]} */ lines) => lines.map((text) => ({ kind, text }));
  const middle = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  return [
    ...marked("same", a.slice(0, start)),
    ...(middle[0].length * middle[1].length > MOST_CELLS
      ? [...marked("gone", middle[0]), ...marked("new", middle[1])]
      : commonLines(middle[0], middle[1])),
    ...marked("same", a.slice(a.length - end)),
  ];
}

/** By the table of the longest common subsequences. @param {string[]} a @param {string[]} b */
function commonLines(a, b) {
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width); // of a[i...] and b[j...]
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j]
        ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  /** @type {DiffLine[]} */
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: "same", text: a[i++] });
      j++;
    } else if (j === b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      lines.push({ kind: "gone", text: a[i++] });
    } else {
      lines.push({ kind: "new", text: b[j++] });
    }
  }
  return lines;
}
