/**
 * The form that says which records to read: where, which ones, and how they are decoded.
 * @module
 */
import { NameInput } from "./act_fields.js";
import { DecodingFields, decodingsOf, rememberDecodings } from "./decodings.js";
import { html } from "./html.js";

/** @typedef {import("./record_query.js").Query} Query */

/** @param {{query: Query, set: (query: Query) => void, decode: (query: Query) => void, api: any}} props
 * `decode` is called with a query whose decodings were changed */
export function QueryFields({ query, set, decode, api }) {
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) => set({ ...query, [name]: event.target.value });
  const number = (/** @type {keyof Query} */ name, /** @type {string} */ title, /** @type {any} */ more) => html`<label class="field"><span>${title}</span>
    <input name=${name} type="number" value=${query[name]} onInput=${change(name)} ...${more} /></label>`;
  return html`<div class="fields query-fields">
    <label class="field wide topic"><span>topic</span><${NameInput} kind="topic" shared=${{ name: "topic", required: true }} value=${query.topic} api=${api}
      change=${(/** @type {string} */ topic) => set({ ...query, topic, ...decodingsOf(topic) })} /></label>
    ${number("partition", "partition", { min: 0, placeholder: "all" })}
    <label class="field"><span>from</span><select name="start" value=${query.start} onChange=${change("start")}>
      <option value="last">the last N</option><option value="earliest">the earliest</option><option value="latest">the end (only new ones)</option>
      <option value="offset">an offset</option><option value="time">a time</option></select></label>
    ${query.start === "last" && number("last", "N", { min: 1, max: 1000 })}
    ${query.start === "offset" && number("offset", "offset", { min: 0 })}
    ${query.start === "time" && html`<${Time} name="time" title="time" value=${query.time} change=${change("time")} />`}
    <${Time} name="until" title="before" value=${query.until} change=${change("until")} />
    ${query.start !== "last" && number("limit", "at most", { min: 1, max: 1000 })}
    <label class="field"><span>transactions</span><select name="transactions" value=${query.transactions} onChange=${change("transactions")}>
      <option value="">committed only</option><option value="all">open and aborted, too</option>
      <option value="aborted">only aborted ones</option><option value="open">only open ones</option></select></label>
    <${DecodingFields} chosen=${query} api=${api} choose=${(/** @type {any} */ chosen) => {
      rememberDecodings(query.topic, chosen);
      decode({ ...query, ...chosen });
    }} />
  </div>
  <${SearchFields} query=${query} set=${set} change=${change} />`;
}

/** @param {{name: string, title: string, value: string, change: (event: any) => void}} props */
function Time({ name, title, value, change }) {
  const step = value.includes(".") ? "0.001" : "1"; // an address may have milliseconds
  return html`<label class="field wide"><span>${title}</span><input name=${name} type="datetime-local" step=${step} value=${value} onInput=${change} /></label>`;
}

/** @param {{query: Query, set: (query: Query) => void, change: (name: string) => (event: any) => void}} props */
function SearchFields({ query, set, change }) {
  const text = (/** @type {string} */ name, /** @type {string} */ title, /** @type {string} */ value, /** @type {string} */ placeholder) => html`<label class="field">
    <span>${title}</span><input name=${name} type="text" autocomplete="off" spellcheck=${false} value=${value} placeholder=${placeholder} onInput=${change(name)} /></label>`;
  return html`<div class="fields query-fields search-fields" role="search" aria-label="Search of records">
    <div class="field"><label for="records-contain">key or value contains</label>
      <input id="records-contain" name="filter" type="search" value=${query.contains} onInput=${change("contains")} />
      <label class="inline"><input name="case" type="checkbox" checked=${query.matchCase}
        onChange=${(/** @type {any} */ event) => set({ ...query, matchCase: event.target.checked })} /> match case</label></div>
    ${text("key", "key is", query.key, "customer-3")}
    ${text("header", "header", query.header, "trace=t-20")}
    <div class="field wide"><label for="records-where">expression</label>
      <input id="records-where" name="where" type="text" autocomplete="off" spellcheck=${false} value=${query.where}
        placeholder="$.order.id = 42" onInput=${change("where")} />
      <details class="hint"><summary>What an expression may say</summary><${ExpressionHelp} /></details></div>
  </div>`;
}

function ExpressionHelp() {
  const code = (/** @type {string} */ text) => html`<code>${text}</code>`;
  return html`<ul class="expression-help">
    <li>${code('$.order.id = 42 and $.state != "done"')}: fields of the decoded value; ${code("$key.id")} of the key, ${code("$.items[0]")} of a list, ${code("$.items[*].id")} of any of its elements</li>
    <li>${code('key = "a"')}, ${code('header.trace contains "t-"')}, ${code("partition")}, ${code("offset")}, ${code("timestamp")} (ms), ${code("size")} (bytes)</li>
    <li>${code("=")} ${code("!=")} ${code("<")} ${code("<=")} ${code(">")} ${code(">=")} ${code("contains")} ${code("matches")} (a regular expression) ${code("exists")}</li>
    <li>${code("and")}, ${code("or")}, ${code("not")} and parentheses</li>
  </ul>`;
}
