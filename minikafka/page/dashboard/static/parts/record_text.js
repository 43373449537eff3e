/**
 * Records as text, and the form that writes them. Pure.
 * @module
 */
import { MOST_ROWS } from "./record_query.js";

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
 * @property {Decoded|null} [key_decoded]
 * @property {Decoded|null} [value_decoded]
 *
 * @typedef {{id: number, subject: string|null, version: number|null, type: string}} Schema
 *
 * @typedef {Object} Decoded
 * @property {string} as
 * @property {string|null} text
 * @property {Schema|null} [schema]
 * @property {string|null} [error]
 * @property {{as: string, text: string}|null} [hint] what bytes of this size may be, too
 *
 * @typedef {[string, string|null, string?]} Header name and value; the third word is "base64" if the value is no text
 */

const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/**
 * Return a key or a value as a reader sees it. `as` is a word for what is no plain text, or "".
 * @param {KafkaRecord} record
 * @param {"key"|"value"} part
 * @returns {{text: string|null, as: string, schema: Schema|null, error: string, hint: string}}
 */
export function shownPart(record, part) {
  const decoded = record[/** @type {"key_decoded"|"value_decoded"} */ (`${part}_decoded`)];
  const raw = record[part];
  if (raw === null) return { text: null, as: "", schema: null, error: "", hint: "" };
  if (decoded && decoded.text !== null && decoded.text !== undefined) {
    const as = decoded.schema?.type.toLowerCase() ?? (["text", "json"].includes(decoded.as) ? "" : decoded.as);
    return { text: visible(decoded.text), as, schema: decoded.schema ?? null, error: decoded.error ?? "", hint: hintOf(decoded) };
  }
  const encoding = record.encoding?.[part];
  const binary = encoding === "base64" ? "base64" : visible(raw) === raw ? "" : "binary";
  return { text: visible(raw), as: binary, schema: null, error: decoded?.error ?? "", hint: "" };
}

/** "int64 42?" @param {Decoded} decoded */
function hintOf({ hint }) {
  return hint ? `${hint.as} ${hint.text}?` : "";
}

/** Characters that have no picture get one: the byte 0 is "␀". @param {string} text */
export function visible(text) {
  return text.replace(CONTROLS, (one) => String.fromCharCode(one === "\u007f" ? 0x2421 : 0x2400 + one.charCodeAt(0)));
}

/** "AVRO orders-value, version 3, id 7". @param {Schema} schema */
export function schemaText({ type, subject, version, id }) {
  return [`${type} schema ${subject ?? ""}`.trim(), version === null || version === undefined ? "" : `version ${version}`, `id ${id}`]
    .filter(Boolean).join(", ");
}

/**
 * Return rows with more records behind them, or before them: at most MOST_ROWS, those at the other
 * end are dropped.
 * @param {{rows: KafkaRecord[], dropped: number}} kept
 * @param {KafkaRecord[]} more
 * @param {boolean} [older]
 */
export function withRecords(kept, more, older = false) {
  const rows = older ? [...more, ...kept.rows] : [...kept.rows, ...more];
  const over = Math.max(0, rows.length - MOST_ROWS);
  const left = older ? rows.slice(0, MOST_ROWS) : rows.slice(over);
  return { rows: left, dropped: kept.dropped + over };
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

const AT_ONCE = 8192; // a function has only so many arguments

/** @param {string} text */
function toBase64(text) {
  const bytes = new TextEncoder().encode(text);
  let letters = "";
  for (let i = 0; i < bytes.length; i += AT_ONCE) letters += String.fromCharCode(...bytes.subarray(i, i + AT_ONCE));
  return btoa(letters);
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
