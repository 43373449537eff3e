/**
 * The committed and end offsets of one group's partitions over time. Pure.
 * @module
 */
import { naturally } from "../reducer.js";

export const MAX_POINTS = 600;

/**
 * @typedef {{topic: string, partition: number, committed: number|null, log_end_offset: number|null, lag: number|null}} Offset
 * @typedef {{name: string, committed: (number|null)[], end: (number|null)[], lag: (number|null)[]}} PartitionLine
 * @typedef {{at: number[], lines: PartitionLine[]}} LagHistory
 */

/** @returns {LagHistory} */
export function emptyHistory() {
  return { at: [], lines: [] };
}

/**
 * Return the history with one more point. A recording may jump back: points after `at` are dropped.
 * @param {LagHistory} history
 * @param {number} at
 * @param {Offset[]} offsets
 * @returns {LagHistory}
 */
export function withPoint(history, at, offsets) {
  if (history.at.at(-1) === at) return history;
  let kept = history.at.length;
  while (kept > 0 && history.at[kept - 1] > at) kept--;
  const from = Math.max(0, kept - MAX_POINTS + 1);
  const times = [...history.at.slice(from, kept), at];
  /** @type {Map<string, PartitionLine>} */
  const before = new Map(history.lines.map((line) => [line.name, line]));
  const now = new Map(offsets.map((offset) => [`${offset.topic}-${offset.partition}`, offset]));
  const names = [...new Set([...before.keys(), ...now.keys()])].sort(naturally);
  const gap = Array(kept - from).fill(null);
  const lines = names.map((name) => {
    const line = before.get(name);
    const offset = now.get(name);
    const past = (/** @type {(number|null)[]|undefined} */ values) => values?.slice(from, kept) ?? gap;
    return {
      name,
      committed: [...past(line?.committed), offset?.committed ?? null],
      end: [...past(line?.end), offset?.log_end_offset ?? null],
      lag: [...past(line?.lag), offset?.lag ?? null],
    };
  });
  return { at: times, lines };
}

/**
 * Return the `most` lines with the greatest lag at the last point, in the order of their names.
 * @param {LagHistory} history
 * @param {number} most
 * @returns {PartitionLine[]}
 */
export function worst(history, most) {
  const byLag = [...history.lines].sort((a, b) => (b.lag.at(-1) ?? -1) - (a.lag.at(-1) ?? -1));
  return byLag.slice(0, most).sort((a, b) => naturally(a.name, b.name));
}
