/** Offset axes: which offsets a picture shows, and where a mark is on it. Pure. */

/** @typedef {{from: number, to: number, zoomed: boolean}} Axis */

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
 * @param {import("./partitions.js").PartitionView} view @returns {Axis}
 */
export function endAxis(view) {
  const [low, high] = extent(view.lanes.filter((lane) => lane.alive || lane.inIsr)
    .flatMap((lane) => [lane.highWatermark, lane.lastStable, lane.logEnd]));
  const start = Math.min(...view.lanes.map((lane) => lane.logStart ?? Infinity), low);
  const step = nice(Math.max((high - low) * 1.5, 20)) / 2;
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
