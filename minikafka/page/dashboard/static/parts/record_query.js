/**
 * Queries for records: their fields in a form, in an address, and in a request. Pure.
 *
 * The address of the view and `GET /api/records` have the same names.
 * @module
 */

export const MOST_ROWS = 2000; // records that the page keeps

/**
 * `from` is "last:N", "earliest", "latest", "offset:N" or "time:MS", and a form has its parts.
 * @typedef {Object} Query
 * @property {string} topic
 * @property {string} partition
 * @property {string} start which kind of `from`
 * @property {string} last
 * @property {string} offset
 * @property {string} time local, as an input field has it
 * @property {string} until local, as an input field has it
 * @property {string} contains
 * @property {boolean} matchCase
 * @property {string} key
 * @property {string} header
 * @property {string} where an expression
 * @property {string} transactions "" (committed ones), "all", "aborted", "open"
 * @property {string} key_as
 * @property {string} value_as
 * @property {string} limit
 */

/** @returns {Query} */
export function emptyQuery() {
  return {
    topic: "", partition: "", start: "last", last: "100", offset: "0", time: "", until: "",
    contains: "", matchCase: false, key: "", header: "", where: "", transactions: "",
    key_as: "auto", value_as: "auto", limit: "500",
  };
}

/**
 * Return the query of an address.
 * @param {Record<string, string>} params
 * @param {(topic: string) => {key_as: string, value_as: string}} remembered decodings of a topic
 *   whose address names none
 * @returns {Query}
 */
export function queryOf(params, remembered = () => ({ key_as: "auto", value_as: "auto" })) {
  const query = emptyQuery();
  query.topic = params.topic ?? params.name ?? "";
  for (const name of /** @type {const} */ (["partition", "contains", "key", "header", "where", "limit"])) {
    if (params[name]) query[name] = params[name];
  }
  const [start, number] = (params.from ?? (params.offset ? `offset:${params.offset}` : "last:100")).split(":");
  query.start = ["last", "earliest", "latest", "offset", "time"].includes(start) ? start : "last";
  if (number && start === "time") query.time = localTime(Number(number));
  else if (number && (start === "last" || start === "offset")) query[start] = number;
  query.until = params.until ? localTime(Number(params.until)) : "";
  query.matchCase = params.case === "1";
  query.transactions = params.uncommitted ? params.transaction ?? "all" : "";
  if (query.transactions === "committed") query.transactions = "";
  return { ...query, ...remembered(query.topic), ...given(params) };
}

/** The decodings that an address names. @param {Record<string, string>} params */
function given({ key_as, value_as }) {
  return { ...(key_as ? { key_as } : {}), ...(value_as ? { value_as } : {}) };
}

/**
 * Return the parameters of a query for an address, without those that are as in an empty query.
 * @param {Query} query
 * @returns {Record<string, string|number|null>}
 */
export function addressOf(query) {
  const empty = emptyQuery();
  const words = requestOf(query);
  const isUsual = query.start === "last" || String(words.limit) === empty.limit;
  return {
    ...words,
    from: words.from === `last:${empty.last}` ? null : words.from,
    limit: isUsual ? null : words.limit,
  };
}

/**
 * Return the parameters of a query for `GET /api/records`.
 * @param {Query} query
 * @returns {Record<string, string|number|null>}
 */
export function requestOf(query) {
  const { topic, partition, contains, key, header, where, transactions } = query;
  const until = Date.parse(query.until);
  return {
    topic, partition, from: fromOf(query), until: Number.isNaN(until) ? null : until,
    contains, case: query.matchCase && contains ? 1 : null, key, header, where,
    uncommitted: transactions ? 1 : null,
    transaction: transactions === "all" ? null : transactions,
    key_as: chosen(query.key_as), value_as: chosen(query.value_as), limit: limitOf(query),
  };
}

/** @param {string} decoding */
function chosen(decoding) {
  return decoding === "auto" ? null : decoding;
}

/** How many records a page of a query has. The last N are one page. @param {Query} query */
export function limitOf(query) {
  const number = Number(query.start === "last" ? query.last : query.limit);
  return Math.min(1000, Math.max(1, Math.trunc(number) || 100));
}

/** Whether records are looked at that may not match. @param {Query} query */
export function searches({ contains, key, header, where, transactions }) {
  return Boolean(contains || key || header || where || (transactions && transactions !== "all"));
}

/**
 * Return the parameters of `GET /api/export` for everything that a query matches.
 * @param {Query} query
 */
export function exportOf(query) {
  const { limit, ...words } = requestOf(query);
  return { ...words, from: query.start === "latest" ? "earliest" : words.from };
}

/** @param {Query} query */
function fromOf({ start, last, offset, time }) {
  if (start === "last") return `last:${Number(last) || 1}`;
  if (start === "offset") return `offset:${Number(offset) || 0}`;
  if (start === "time") return `time:${Date.parse(time) || 0}`;
  return start;
}

/** Return a time as an input field of kind datetime-local has it. @param {number} ms since 1970 */
export function localTime(ms) {
  if (!Number.isFinite(ms)) return "";
  const shifted = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, ms % 1000 === 0 ? 19 : 23);
}

/**
 * Turn offsets to go on from into a parameter: {"0": 17, "1": 5} -> "0:17,1:5".
 * @param {Record<string, number>} offsets
 * @returns {string}
 */
export function offsetsText(offsets) {
  return Object.entries(offsets).map(([partition, offset]) => `${partition}:${offset}`).join(",");
}
