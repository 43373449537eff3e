/**
 * What the swim lanes of transactions show: the states of each transactional id over time. Pure.
 * @module
 */
import { all, naturally, trails } from "../reducer.js";

export const HANGS_AFTER = 1; // times its time-out; a coordinator would have aborted it by then

/**
 * @typedef {{state: string, from: number, to: number, partitions: string[], unmarked: number|null, unmarkedNames: string[]|null}} Span
 * @typedef {{name: string, spans: Span[], row: TransactionRow}} Lane
 * @typedef {{name: string, state: string, pending: string|null, coordinator: number|null, producer_id: number, producer_epoch: number,
 *   start_ms: number|null, timeout_ms: number, partitions: string[], unmarked: number|null, late: boolean}} TransactionRow
 */

/**
 * Return a lane a transactional id, by name, so that lanes keep their places. Steps of the
 * coordinator itself count where it reports them, else those of the protocol.
 * @param {import("../reducer.js").State} state
 * @returns {Lane[]}
 */
export function lanesOf(state) {
  const rows = new Map(transactionRows(state).map((row) => [row.name, row]));
  /** @type {Map<string, Span[]>} */
  const spans = new Map();
  for (const kind of ["transaction", "txn"]) {
    for (const { name, steps } of trails(state, kind)) {
      if (!rows.has(name) || (spans.has(name) && kind === "txn")) continue;
      const earlier = spans.get(name) ?? [];
      spans.set(name, [...earlier, ...spansOf(steps, state.at)].sort((a, b) => a.from - b.from));
    }
  }
  return [...rows.values()].map((row) => ({ name: row.name, row, spans: spans.get(row.name) ?? [] }));
}

/** @param {string} state */
export function isOpen(state) {
  return state === "Ongoing" || state.startsWith("Prepare");
}

/**
 * Turn steps into spans. A transaction began at its start_ms, maybe before the page has seen it.
 * @param {import("../reducer.js").Step[]} steps
 * @param {number} now
 * @returns {Span[]}
 */
export function spansOf(steps, now) {
  /** @type {Span[]} */
  const spans = [];
  steps.forEach(({ at, facts }, i) => {
    if (at > now || facts === null) return;
    const next = steps[i + 1];
    const last = spans.at(-1);
    const state = facts.pending && facts.state === "Ongoing" ? facts.pending : facts.state;
    const start = state === "Ongoing" && facts.start_ms > 0 ? Math.min(at, facts.start_ms) : at;
    const from = last ? Math.max(Math.min(last.to, at), start) : start;
    if (last && from < last.to) last.to = from;
    if (!last && state.startsWith("Prepare") && facts.start_ms > 0 && facts.start_ms < at) {
      const before = { partitions: facts.partitions ?? [], unmarked: null, unmarkedNames: null };
      spans.push({ state: "Ongoing", from: facts.start_ms, to: at, ...before });
    }
    const ended = state.startsWith("Complete") && last && isOpen(last.state); // its facts name no partitions
    const span = {
      state,
      from,
      to: Math.min(now, next?.at ?? now),
      partitions: ended ? last.partitions : (facts.partitions ?? []),
      unmarked: facts.unmarked ?? null,
      unmarkedNames: facts.unmarked_partitions ?? null,
    };
    if (last && last.state === state && state !== "Ongoing") Object.assign(last, { ...span, from: last.from });
    else if (last && last.state === "Ongoing" && state === "Ongoing" && from <= last.from) Object.assign(last, span);
    else if (last && last.state === "Ongoing" && state === "Ongoing" && facts.start_ms <= last.from) Object.assign(last, { ...span, from: last.from });
    else spans.push(span);
  });
  return spans;
}

/**
 * Return a row a transactional id, from the coordinators and from the protocol.
 * @param {import("../reducer.js").State} state
 * @returns {TransactionRow[]}
 */
export function transactionRows(state) {
  /** @type {Map<string, TransactionRow>} */
  const rows = new Map();
  for (const { name, facts } of all(state, "txn")) rows.set(name, rowOf(name, facts, facts.coordinator, state.at));
  for (const { name, facts, broker } of all(state, "transaction")) {
    rows.set(name, rowOf(name, facts, broker, state.at));
  }
  return [...rows.values()].sort((a, b) => naturally(a.name, b.name));
}

/**
 * @param {string} name
 * @param {any} facts
 * @param {number|null} coordinator
 * @param {number} now
 * @returns {TransactionRow}
 */
function rowOf(name, facts, coordinator, now) {
  const start = facts.start_ms > 0 && isOpen(facts.state) ? facts.start_ms : null;
  return {
    name,
    state: facts.state,
    pending: facts.pending ?? null,
    coordinator,
    producer_id: facts.producer_id,
    producer_epoch: facts.producer_epoch,
    start_ms: start,
    timeout_ms: facts.timeout_ms,
    partitions: facts.partitions ?? [],
    unmarked: facts.unmarked ?? null,
    late: start !== null && facts.timeout_ms > 0 && now - start > facts.timeout_ms * HANGS_AFTER,
  };
}

/**
 * Return whether each partition of a span has its marker: true, false, or null if that is unknown.
 * @param {Span} span
 * @returns {{partition: string, marked: boolean|null}[]}
 */
export function marksOf(span) {
  const prepared = span.state.startsWith("Prepare");
  return span.partitions.map((partition) => {
    if (span.state === "Ongoing") return { partition, marked: false };
    if (!prepared || span.unmarked === 0) return { partition, marked: true };
    if (span.unmarkedNames) return { partition, marked: !span.unmarkedNames.includes(partition) };
    return { partition, marked: span.unmarked === span.partitions.length ? false : null };
  });
}
