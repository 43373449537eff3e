/**
 * What the views of ACLs, users, tokens and quotas share: a list that the page's process reads over
 * the protocol, a page at a time. The address has its search and its page.
 * @module
 */
import { Empty } from "./empty.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { number } from "./format.js";
import { usePolled } from "./polled.js";
import { Pager, Table } from "./table.js";

const PAGE = 100;
const EVERY_MS = 5000;

/**
 * `kind` is the path of the list and the name of its rows; `query` are its parameters with `from`.
 * `changed` counts acts: after one the list is read again at once.
 * @param {{kind: string, label: string, query: Record<string, string>, columns: import("./table.js").Column[],
 *   rowKey: (row: any) => string, api: any, live: boolean, changed: number, open: (more: any) => void, none: string}} props
 */
export function SecurityList({ kind, label, query, columns, rowKey, api, live, changed, open, none }) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  if (changed) words.set("fresh", String(changed));
  const { facts, problem } = usePolled({ api, path: `${kind}?${words}`, live, everyMs: EVERY_MS, changed });
  if (problem && !facts) return html`<p class="notice bad" role="alert">${problem}</p>`;
  if (!facts) return html`<p class="muted" role="status">Reading…</p>`;
  if (facts.state) return html`<${Empty} title=${`No ${label} to show.`}>${facts.state}<//>`;
  const pages = Math.max(1, Math.ceil(facts.matching / PAGE));
  const some = facts.matching === facts.total ? "" : ` of ${number(facts.total)}`;
  const what = facts.total === 1 ? label.replace(/s$/, "") : label;
  return html`<div>
    ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
    <p class="muted" role="status">${number(facts.matching)}${some} ${what}</p>
    <${Table} caption=${`Table of ${label}`} columns=${columns.map((column) => ({ sortable: false, ...column }))}
      rows=${facts[kind]} rowKey=${rowKey} pageSize=${PAGE} none=${facts.total ? "Nothing matches." : none} />
    <${Pager} page=${Math.floor(facts.from / PAGE)} pages=${pages} total=${facts.matching} what=${label}
      setPage=${(/** @type {number} */ page) => open({ from: page ? String(page * PAGE) : "" })} />
  </div>`;
}

/**
 * Fields of a search, which go into the address when they are sent.
 * @param {{label: string, fields: {name: string, label: string, choices?: string[]}[], query: Record<string, string>,
 *   open: (query: any) => void, submit?: string, required?: boolean}} props
 */
export function SearchForm({ label, fields, query, open, submit = "Show", required = false }) {
  const given = Object.fromEntries(fields.map(({ name }) => [name, query[name] ?? ""]));
  const [values, setValues] = useState(given);
  const before = useRef(given);
  useEffect(() => { // what the address changes; the rest is still being typed
    const changed = Object.entries(given).filter(([name, value]) => before.current[name] !== value);
    before.current = given;
    setValues((/** @type {any} */ typed) => ({ ...typed, ...Object.fromEntries(changed) }));
  }, [JSON.stringify(given)]);
  const send = (/** @type {any} */ more) => open({ ...values, ...more, from: "" });
  return html`<form class="fields" role="search" aria-label=${label} onSubmit=${(/** @type {any} */ event) => {
    event.preventDefault();
    send({});
  }}>
    ${fields.map(({ name, label: said, choices }) => html`<label key=${name} class="field"><span>${said}</span>${choices
      ? html`<select name=${name} value=${values[name] ?? ""} onChange=${(/** @type {any} */ event) => send({ [name]: event.target.value })}>
          ${!required && html`<option value="">any</option>`}
          ${choices.map((choice) => html`<option value=${choice}>${choice.replaceAll("_", " ")}</option>`)}</select>`
      : html`<input name=${name} type=${required ? "text" : "search"} autocomplete="off" spellcheck=${false} required=${required}
          value=${values[name] ?? ""} onInput=${(/** @type {any} */ event) => setValues({ ...values, [name]: event.target.value })} />`}</label>`)}
    <button type="submit" class=${`send ${required ? "primary" : ""}`}>${submit}</button>
  </form>`;
}
