/**
 * The view "Records": browse, search, tail, produce, edit and replay, export. Its address holds the
 * whole query.
 * @module
 */
import { hashOf, replace } from "../route.js";
import { reasonAgainst } from "../parts/act.js";
import { decodingsOf } from "../parts/decodings.js";
import { Empty } from "../parts/empty.js";
import { count, few, number } from "../parts/format.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";
import { ProduceForm } from "../parts/produce_form.js";
import { QueryFields } from "../parts/record_fields.js";
import { addressOf, exportOf, MOST_ROWS, queryOf, searches } from "../parts/record_query.js";
import { RecordRows } from "../parts/record_rows.js";
import { emptyForm, replayForm } from "../parts/record_text.js";
import { useRecords, wholeRecord } from "../parts/record_reader.js";

const APPLY_MS = 400; // after the last change of a filter, while a tail is shown

/** @typedef {import("../parts/record_query.js").Query} Query */

/** There is nothing to type before the page knows its cluster. @param {any} props */
function Records(props) {
  const { hello } = props.state;
  if (hello?.live === false) return html`<${Empty} title="A recording has no records.">Records are read from the brokers of a live cluster.<//>`;
  return hello ? html`<${LiveRecords} ...${props} />` : html`<${Empty}>Reading the cluster…<//>`;
}

/** @param {any} props */
function LiveRecords({ state, api, go, params }) {
  const [form, setForm] = useState(/** @type {any} */ (null));
  const [formKey, setFormKey] = useState(0);
  const [newestFirst, setNewestFirst] = useState(false);
  const [trouble, setTrouble] = useState("");
  const reader = useRecords(api);
  const { query, setQuery, show, tail, stopTail } = useQuery({ reader, params, go, setNewestFirst });
  const reason = reasonAgainst(state, "produce");
  const topic = reader.query?.topic;
  const showForm = (/** @type {any} */ next) => {
    setForm(next);
    setFormKey((/** @type {number} */ n) => n + 1);
  };
  const replay = async (/** @type {any} */ record) => {
    setTrouble("");
    try {
      showForm(replayForm(topic, await wholeRecord(api, topic, record)));
    } catch (error) {
      setTrouble(/** @type {Error} */ (error).message);
    }
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (query.topic) show(query);
  };
  return html`<div class="stack">
    <form class="card" aria-label="Which records" onSubmit=${submit}>
      <${QueryFields} query=${query} set=${setQuery} api=${api}
        decode=${(/** @type {Query} */ next) => (next.topic && !reader.tailing ? show(next) : setQuery(next))} />
      <div class="toolbar">
        <button class="primary" type="submit" disabled=${!query.topic || reader.tailing}>Browse</button>
        <button type="button" data-do="tail" aria-pressed=${reader.tailing} disabled=${!query.topic}
          onClick=${() => (reader.tailing ? stopTail() : tail(query))}>${reader.tailing ? "Stop" : "Tail"}</button>
        <button type="button" onClick=${reader.clear} disabled=${reader.rows.length === 0}>Clear</button>
        <label><input type="checkbox" checked=${newestFirst} onChange=${(/** @type {any} */ event) => setNewestFirst(event.target.checked)} /> newest first</label>
        <span class="spread"></span>
        <${Export} query=${query} />
        <button type="button" data-do="produce" aria-disabled=${reason === null ? null : "true"} title=${reason}
          onClick=${() => reason === null && showForm(emptyForm(query.topic))}>Produce…</button>
      </div>
    </form>
    ${form && html`<${ProduceForm} key=${formKey} form=${form} set=${setForm} api=${api} close=${() => setForm(null)}
      written=${() => !reader.tailing && topic === form.topic && reader.newer()} />`}
    ${(reader.problem || trouble) && html`<p class="notice bad" role="alert">${reader.problem || trouble}</p>`}
    <section class="card" aria-label="Records">
      <${Found} reader=${reader} />
      ${reader.rows.length > 0 && html`<${RecordRows} rows=${reader.rows} query=${reader.query} newestFirst=${newestFirst} state=${state}
        replay=${replay} />`}
    </section>
  </div>`;
}

/**
 * The query of the form, and what makes it the query of the address, whose records are shown.
 * @param {{reader: ReturnType<typeof useRecords>, params: Record<string, string>, go: any, setNewestFirst: (on: boolean) => void}} props
 */
function useQuery({ reader, params, go, setNewestFirst }) {
  const [query, setQuery] = useState(() => queryOf(params, decodingsOf));
  const shown = useRef(""); // the address whose records are shown
  const address = (/** @type {Query} */ one, /** @type {boolean} */ tails) => ({ ...addressOf(one), tail: tails ? 1 : null });
  const textOf = (/** @type {Query} */ one, /** @type {boolean} */ tails) => hashOf("records", address(one, tails));
  /** @param {Query} one @param {boolean} tails */
  const run = (one, tails) => {
    shown.current = textOf(one, tails);
    if (!one.topic) return reader.reset();
    if (tails || one.start === "last") setNewestFirst(true);
    else setNewestFirst(false);
    return tails ? reader.tail(one) : reader.browse(one);
  };
  const open = (/** @type {Query} */ one, /** @type {boolean} */ tails) =>
    (textOf(one, tails) === shown.current ? void run(one, tails) : go("records", address(one, tails)));
  useEffect(() => {
    const [next, tails] = [queryOf(params, decodingsOf), params.tail === "1"];
    const text = textOf(next, tails);
    if (text === shown.current) return;
    if (shown.current !== "") setQuery(next); // at first the form has it already
    void run(next, tails);
    if (next.topic && text !== location.hash) replace("records", address(next, tails)); // with what is remembered
  }, [params]);
  useEffect(() => {
    if (!reader.tailing || textOf(query, true) === shown.current) return undefined;
    const timer = setTimeout(() => {
      void run(query, true);
      replace("records", address(query, true));
    }, APPLY_MS);
    return () => clearTimeout(timer);
  }, [query]);
  return {
    query,
    setQuery,
    show: (/** @type {Query} */ one) => open(one, false),
    tail: (/** @type {Query} */ one) => open(one, true),
    stopTail() {
      reader.stop();
      shown.current = textOf(reader.query, false);
      replace("records", address(reader.query, false));
    },
  };
}

/** What was found, how far the search is, and how it goes on. @param {{reader: ReturnType<typeof useRecords>}} props */
function Found({ reader }) {
  const { progress: { more, newest, done, of, unread, held }, busy, tailing, rows } = reader;
  const searching = busy && reader.query !== null && searches(reader.query);
  const next = newest ? "Read older" : reader.query && searches(reader.query) ? "Search on" : "Read more";
  return html`<div class="toolbar found">
      <p class="muted" role="status">${statusText(reader)}</p>
      ${reader.query?.topic && html`<a href=${hashOf("topics", { name: reader.query.topic })}>Topic ${reader.query.topic}</a>`}
      ${searching && of > 0 && html`<progress aria-label="Records looked at" value=${done} max=${of}></progress>`}
      ${busy && (searching || rows.length > 0) && html`<button type="button" data-do="stop" onClick=${() => reader.stop()}>Stop</button>`}
      ${more && !busy && !tailing && html`<button type="button" data-do="more" onClick=${() => reader.more()}>${next}</button>`}
    </div>
    ${unread.length > 0 && html`<p class="notice warn">${count(unread.length, "partition")} without a leader ${
      unread.length === 1 ? "is" : "are"} not read: ${few(unread.map(String))}.</p>`}
    ${held > 0 && html`<p class="muted">Not shown: ${count(held, "offset")} of open transactions or behind them (see <em>transactions</em>).</p>`}`;
}

/** @param {ReturnType<typeof useRecords>} reader */
function statusText({ query, rows, progress: { more, newest, done, of }, busy, problem, tailing, stopped, dropped }) {
  if (!query) return "Choose a topic, then browse or tail it.";
  const looks = searches(query) && of > 0 ? `looked at ${number(done)} of ${count(of, "record")}` : "";
  const parts = [];
  if (rows.length > 0) parts.push(searches(query) ? `${number(rows.length)} found` : count(rows.length, "record"));
  else if (busy) parts.push(looks ? "Searching" : "Reading…");
  else if (!tailing && !problem) parts.push(more ? "No record matches so far" : searches(query) ? "No record matches" : "There are no records there");
  if (looks && !tailing) parts.push(looks);
  if (stopped && more && !tailing) parts.push("stopped");
  if (dropped) parts.push(`${number(dropped)} ${newest ? "newer" : "older"} ones were dropped (the page keeps ${number(MOST_ROWS)})`);
  if (tailing) parts.push("waiting for more");
  return parts.join("; ");
}

/** Links to downloads of all that the query matches, made by the page's process. @param {{query: Query}} props */
function Export({ query }) {
  if (!query.topic) return null;
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(exportOf(query))) {
    if (value !== null && value !== "") words.set(name, String(value));
  }
  const link = (/** @type {string} */ format) => `api/export?${words}&format=${format}`;
  return html`<span class="row" role="group" aria-label="Export everything that matches">
    <a class="button" data-export="json" href=${link("json")} download>Export JSON</a>
    <a class="button" data-export="csv" href=${link("csv")} download>Export CSV</a></span>`;
}

export const view = { path: "records", title: "Records", key: "r", component: Records };
