/**
 * Reading records for a view: pages, searches that go on until enough is found, and a tail that
 * keeps what it has shown when it stops.
 * @module
 */
import { useEffect, useRef, useState } from "./html.js";
import { limitOf, offsetsText, requestOf } from "./record_query.js";
import { recordId, withRecords } from "./record_text.js";

const TAIL_LIMIT = 500; // records of one request
const WAIT_MS = 10_000; // for which the page's process waits for new records
const RETRY_MS = 2000;
const LEAST_MS = 300; // between two requests of a tail
const MOST_STILL = 3; // requests in a row that look at nothing

/** @typedef {{more: boolean, newest: boolean, done: number, of: number, unread: number[], held: number}} Progress of a query, in records,
 * the partitions without a leader, and how many offsets are not committed yet */
const NONE = { more: false, newest: false, done: 0, of: 0, unread: [], held: 0 };

/** @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve(undefined);
    });
  });
}

/**
 * Return the records so far, and functions that read more.
 * @param {any} api
 */
export function useRecords(api) {
  const [kept, setKept] = useState({ rows: /** @type {any[]} */ ([]), dropped: 0 });
  const [progress, setProgress] = useState(/** @type {Progress} */ (NONE));
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [stopped, setStopped] = useState(false);
  const [tailing, setTailing] = useState(false);
  const now = useRef({
    stop: new AbortController(), query: /** @type {any} */ (null), next: /** @type {any} */ (null),
    older: /** @type {any} */ (null),
  });
  useEffect(() => () => now.current.stop.abort(), []);

  /** End what is being read; its rows stay. */
  const stop = () => {
    now.current.stop.abort();
    now.current.stop = new AbortController();
    setTailing(false);
    setBusy(false);
    setStopped(true);
    return now.current.stop.signal;
  };
  /**
   * Where reading goes on: behind the newest record, or for a query of the last ones before the oldest.
   * @param {boolean} forward
   */
  const onward = (forward) => {
    const { next, older } = now.current;
    if (older && !forward) return { before: offsetsText(older) };
    return next === null ? {} : { from: null, next: offsetsText(next) };
  };
  /** @param {boolean} forward @param {AbortSignal} signal @param {Record<string, any>} how */
  const read = async (forward, signal, how) => {
    const where = onward(forward);
    const found = await api.get("records", { ...requestOf(now.current.query), ...where, ...how }, signal);
    const newest = found.order === "newest";
    const records = newest ? found.records.toReversed() : found.records;
    if (!("before" in where)) now.current.next = { ...now.current.next, ...found.next };
    if (newest) now.current.older = found.older;
    if (newest || !now.current.older) {
      setProgress((/** @type {Progress} */ { done }) => ({
        more: Boolean(found.more), newest,
        done: found.progress?.done ?? done + (found.looked_at ?? 0), of: found.progress?.of ?? 0,
        unread: found.unread ?? [], held: found.held ?? 0,
      }));
    }
    if (records.length > 0) setKept((/** @type {any} */ rows) => withRecords(rows, fresh(rows.rows, records), "before" in where));
    return { count: records.length, more: Boolean(found.more), at: JSON.stringify([found.next, found.older]) };
  };
  /** @param {any} query */
  const begin = (query) => {
    const signal = stop();
    Object.assign(now.current, { query, next: null, older: null });
    setKept({ rows: [], dropped: 0 });
    setProgress(NONE);
    setProblem("");
    return signal;
  };
  /** Read until a page is full or nothing is left, however many requests it takes.
   * @param {AbortSignal} signal @param {boolean} [forward] */
  const page = async (signal, forward = false) => {
    setBusy(true);
    setStopped(false);
    setProblem("");
    let left = limitOf(now.current.query);
    let [place, still] = ["", 0];
    try {
      while (left > 0 && !signal.aborted) {
        const { count, more, at } = await read(forward, signal, { limit: left });
        left -= count;
        if (!more) break;
        still = count === 0 && at === place ? still + 1 : 0;
        if (still === MOST_STILL) throw new Error("The brokers send no more records: a partition may have no leader. Go on when it has one.");
        place = at;
      }
    } catch (error) {
      if (!signal.aborted) setProblem(/** @type {Error} */ (error).message);
    }
    if (!signal.aborted) setBusy(false);
  };
  return {
    ...kept,
    progress,
    problem,
    busy,
    stopped,
    tailing,
    query: now.current.query,
    stop,
    browse(/** @type {any} */ query) {
      return page(begin(query));
    },
    /** Read the next page, or look further. */
    more: () => page(stop()),
    /** Read what was written since the newest record that is shown. */
    newer: () => page(stop(), true),
    clear: () => setKept({ rows: [], dropped: 0 }),
    reset: () => void begin(null),
    /** @param {any} query */
    async tail(query) {
      const same = now.current.next !== null && JSON.stringify(query) === JSON.stringify(now.current.query);
      const signal = same ? stop() : begin(query);
      setTailing(true);
      while (!signal.aborted) {
        try {
          const { count } = await read(now.current.next !== null, signal, { limit: TAIL_LIMIT, wait: WAIT_MS });
          setProblem("");
          if (count < TAIL_LIMIT) await pause(LEAST_MS, signal);
        } catch (error) {
          if (signal.aborted) return;
          setProblem(/** @type {Error} */ (error).message);
          await pause(RETRY_MS, signal);
        }
      }
    },
  };
}

/**
 * Return a record whole, if a list has only its beginning.
 * @param {any} api
 * @param {string} topic
 * @param {import("./record_text.js").KafkaRecord} record
 * @returns {Promise<import("./record_text.js").KafkaRecord>}
 */
export async function wholeRecord(api, topic, record) {
  if (!record.truncated) return record;
  const { partition, offset } = record;
  const found = await api.get("records", { topic, partition, from: `offset:${offset}`, full: 1, uncommitted: 1 });
  const whole = found.records.find((/** @type {any} */ one) => one.offset === offset);
  if (!whole) throw new Error(`The record at offset ${offset} of partition ${partition} is no longer there.`);
  return whole;
}

/** Leave out records that are here already. @param {any[]} rows @param {any[]} found */
function fresh(rows, found) {
  const known = new Set(rows.map(recordId));
  return found.filter((record) => !known.has(recordId(record)));
}
