/**
 * Records as text, and the queries that read them. Pure.
 * @module
 */

export const MAX_ROWS = 2000; // records that the page keeps

/**
 * @typedef {Object} KafkaRecord
 * @property {number} partition
 * @property {number} offset
 * @property {number} timestamp milliseconds since 1970
 * @property {string|null} key
 * @property {string|null} value
 * @property {Header[]} headers
 * @property {number} key_size bytes
 * @property {number} value_size bytes
 * @property {{key: string, value: string}} encoding "utf8", "base64" or "null"
 * @property {boolean} truncated
 *
 * @typedef {[string, string|null, string?]} Header name and value; the third word is "base64" if the value is no text
 * @typedef {{topic: string, partition: string, start: string, last: string, offset: string, time: string, contains: string, limit: string, uncommitted: boolean}} Query
 */

/** @returns {Query} */
export function emptyQuery() {
  return { topic: "", partition: "", start: "last", last: "100", offset: "0", time: "", contains: "", limit: "500", uncommitted: false };
}

/**
 * Return where a query starts, as `GET /api/records` names it.
 * @param {Query} query
 * @returns {string}
 */
export function fromOf(query) {
  if (query.start === "last") return `last:${Number(query.last) || 1}`;
  if (query.start === "offset") return `offset:${Number(query.offset) || 0}`;
  if (query.start === "time") return `time:${Date.parse(query.time) || 0}`;
  return query.start;
}

/**
 * Turn the offsets to go on from into the parameter `next`: {"0": 17, "1": 5} -> "0:17,1:5".
 * @param {Record<string, number>} next
 * @returns {string}
 */
export function nextText(next) {
  return Object.entries(next).map(([partition, offset]) => `${partition}:${offset}`).join(",");
}

/**
 * Return rows with more records behind them: at most MAX_ROWS, the oldest are dropped.
 * @param {{rows: KafkaRecord[], dropped: number}} kept
 * @param {KafkaRecord[]} more
 */
export function withRecords(kept, more) {
  const rows = more.length ? [...kept.rows, ...more] : kept.rows;
  const over = Math.max(0, rows.length - MAX_ROWS);
  return { rows: over ? rows.slice(over) : rows, dropped: kept.dropped + over };
}

/** @param {KafkaRecord} record */
export function recordId(record) {
  return `${record.partition}:${record.offset}`;
}

/**
 * Indent JSON. Numbers keep their digits, which JSON.parse would round beyond 2^53. Returns null
 * if the text is no JSON object or array.
 * @param {string|null} text
 * @returns {string|null}
 */
export function prettyJson(text) {
  if (text === null || !/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, i) => {
    if (token === "{" || token === "[") {
      const empty = tokens[i + 1] === "}" || tokens[i + 1] === "]";
      depth += 1;
      out += empty ? token : token + line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const empty = tokens[i - 1] === "{" || tokens[i - 1] === "[";
      out += empty ? token : line() + token;
    } else if (token === ",") out += `,${line()}`;
    else out += token === ":" ? ": " : token;
  });
  return out;
}

/**
 * Return the start of a text on one line.
 * @param {string|null} text
 * @param {number} most characters
 * @returns {string}
 */
export function oneLine(text, most) {
  if (text === null) return "";
  const short = text.slice(0, most + 1).replace(/\s+/g, " ");
  return text.length > most ? `${short.slice(0, most)}…` : short;
}

/**
 * Return the form that writes a record again. Bytes that are no text need base64 for both.
 * @param {string} topic
 * @param {KafkaRecord} record
 */
export function replayForm(topic, record) {
  const binary = [record.encoding?.key, record.encoding?.value].includes("base64");
  const word = (/** @type {string|null} */ text, /** @type {string} */ encoding) =>
    text === null ? "" : binary && encoding !== "base64" ? toBase64(text) : text;
  return {
    topic,
    partition: String(record.partition),
    key: word(record.key, record.encoding?.key),
    noKey: record.key === null,
    value: word(record.value, record.encoding?.value),
    noValue: record.value === null,
    headers: (record.headers ?? []).map((header) => (binary ? binaryHeader(header) : header)),
    encoding: binary ? "base64" : "utf8",
    count: "1",
  };
}

/** With `encoding` base64 all headers are base64. @param {Header} header @returns {Header} */
function binaryHeader([name, value, encoding]) {
  return [name, value === null || encoding === "base64" ? value : toBase64(value), "base64"];
}

/** @param {string} text */
function toBase64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

/** @returns {ReturnType<typeof replayForm>} */
export function emptyForm(topic = "") {
  return { topic, partition: "", key: "", noKey: true, value: "", noValue: false, headers: [], encoding: "utf8", count: "1" };
}

/**
 * Return the body of `POST /api/produce`.
 * @param {ReturnType<typeof emptyForm>} form
 */
export function produceBody(form) {
  return {
    topic: form.topic,
    partition: form.partition === "" ? null : Number(form.partition),
    key: form.noKey ? null : form.key,
    value: form.noValue ? null : form.value,
    headers: form.headers.filter(([name]) => name !== ""),
    encoding: form.encoding,
    count: Number(form.count) || 1,
  };
}
