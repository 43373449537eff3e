/**
 * Reading records for a view: pages, and a tail that keeps what it has shown when it stops.
 * @module
 */
import { useEffect, useRef, useState } from "./html.js";
import { fromOf, nextText, recordId, withRecords } from "./record_text.js";

const TAIL_LIMIT = 500; // records of one request
const WAIT_MS = 10_000; // for which the page's process waits for new records
const RETRY_MS = 2000;
const LEAST_MS = 300; // between two requests of a tail

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
  const [more, setMore] = useState(false);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [tailing, setTailing] = useState(false);
  const now = useRef({ stop: new AbortController(), topic: "", query: /** @type {any} */ (null), next: /** @type {any} */ (null) });
  useEffect(() => () => now.current.stop.abort(), []);

  /** End what is being read; its rows stay. */
  const stop = () => {
    now.current.stop.abort();
    now.current.stop = new AbortController();
    setTailing(false);
    setBusy(false);
    return now.current.stop.signal;
  };
  /** @param {any} query @param {AbortSignal} signal @param {Record<string, any>} how */
  const read = async (query, signal, how) => {
    const { next } = now.current;
    const where = next === null ? { from: fromOf(query) } : { next: nextText(next) };
    const found = await api.get("records", {
      topic: query.topic, partition: query.partition, contains: query.contains,
      uncommitted: query.uncommitted ? 1 : null, ...where, ...how,
    }, signal);
    now.current.next = { ...next, ...found.next };
    setMore(Boolean(found.more));
    if (found.records.length > 0) setKept((/** @type {any} */ before) => withRecords(before, fresh(before.rows, found.records)));
    return found.records.length;
  };
  /** @param {any} query */
  const begin = (query) => {
    const signal = stop();
    Object.assign(now.current, { topic: query.topic, query, next: null });
    setKept({ rows: [], dropped: 0 });
    setProblem("");
    return signal;
  };
  /** @param {any} query @param {AbortSignal} signal */
  const page = async (query, signal) => {
    setBusy(true);
    try {
      await read(query, signal, { limit: query.limit || 100 });
      setProblem("");
    } catch (error) {
      if (!signal.aborted) setProblem(/** @type {Error} */ (error).message);
    }
    if (!signal.aborted) setBusy(false);
  };
  return {
    ...kept,
    problem,
    busy,
    tailing,
    topic: now.current.topic,
    hasMore: more && kept.rows.length > 0,
    stop,
    browse: (/** @type {any} */ query) => page(query, begin(query)),
    more: () => page(now.current.query, stop()),
    clear: () => setKept({ rows: [], dropped: 0 }),
    /** @param {any} query */
    async tail(query) {
      const same = now.current.next !== null && JSON.stringify(query) === JSON.stringify(now.current.query);
      const signal = same ? stop() : begin(query);
      setTailing(true);
      while (!signal.aborted) {
        try {
          const count = await read(query, signal, { limit: TAIL_LIMIT, wait: WAIT_MS });
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
