/** Offset axes: which offsets a picture shows, and where a mark is on it. Pure. */

/** @typedef {{from: number, to: number, zoomed: boolean}} Axis */

const LEAST = 20; // offsets
const SHOWN_MS = 8000; // an axis has room for what comes in so long

/** @typedef {{at: number, end: number|null, perMs: number, least: number}} Pace */

/**
 * Return how fast a log grows, to choose the length of an axis. It grows at once and shrinks when
 * much less is needed, so that an axis does not change with every batch.
 * @param {Pace|null} before @param {number} at ms @param {number|null} end the log end
 * @returns {Pace}
 */
export function pace(before, at, end) {
  const fresh = { at, end, perMs: 0, least: LEAST };
  // An end that becomes known, since a partition has a leader again, has not grown from 0.
  if (!before || end === null || before.end === null) return fresh;
  if (at < before.at || end < before.end) return fresh;
  const passed = at - before.at;
  if (passed < 200) return before;
  const share = Math.min(1, passed / 3000);
  const perMs = before.perMs * (1 - share) + ((end - before.end) / passed) * share;
  const wanted = Math.max(LEAST, nice(perMs * SHOWN_MS));
  const least = wanted > before.least || wanted * 4 <= before.least ? wanted : before.least;
  return { at, end, perMs, least };
}

/** 1, 2, 5, 10, 20, 50 ...: the smallest that is at least n. @param {number} n */
export function nice(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  for (const factor of [1, 2, 5, 10]) {
    if (factor * power >= n) return factor * power;
  }
  return 10 * power;
}

/**
 * Return the offsets from the log start to the log end.
 * @param {import("./partitions.js").PartitionView} view @returns {Axis}
 */
export function wholeAxis(view) {
  const [low, high] = extent(view.lanes.flatMap((lane) => [lane.logStart, lane.logEnd]));
  return { from: low, to: Math.max(high, low + 1), zoomed: false };
}

/**
 * Return the offsets around watermarks and log ends, where marks move. Its ends are round, so that
 * marks move over it and it moves only now and then.
 * @param {import("./partitions.js").PartitionView} view
 * @param {number} [least] offsets that it has at least @returns {Axis}
 */
export function endAxis(view, least = LEAST) {
  const [low, high] = extent(view.lanes.filter((lane) => lane.alive || lane.inIsr)
    .flatMap((lane) => [lane.highWatermark, lane.lastStable, lane.logEnd]));
  const start = Math.min(...view.lanes.map((lane) => lane.logStart ?? Infinity), low);
  const step = nice(Math.max((high - low) * 1.5, least)) / 2;
  const from = Math.max(Math.floor((low - step / 8) / step) * step, Math.min(start, low));
  const to = Math.max(Math.ceil((high + step / 8) / step) * step, from + 2 * step);
  return { from, to, zoomed: from > start };
}

/** @param {(number|null)[]} offsets @returns {[number, number]} */
function extent(offsets) {
  const known = /** @type {number[]} */ (offsets.filter((offset) => offset !== null));
  return known.length ? [Math.min(...known), Math.max(...known)] : [0, 0];
}

/** Round offsets to write below an axis, at most `most`. @param {Axis} axis @param {number} most */
export function ticks({ from, to }, most) {
  const step = nice((to - from) / Math.max(1, most));
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

const HALF_DIGIT = 3.6; // px, of a digit of 11 px

/** Return where the middle of the label of a tick is, so that all of it is in the picture.
 * @param {number} x @param {string} text @param {number} width @returns {number} */
export function labelMiddle(x, text, width) {
  const half = text.length * HALF_DIGIT;
  return Math.max(half, Math.min(width - half, x));
}
