/**
 * The view "Records": browse, tail, produce, edit and replay, export.
 * @module
 */
import { reasonAgainst } from "../parts/act.js";
import { NameInput } from "../parts/act_fields.js";
import { Empty } from "../parts/empty.js";
import { count, number } from "../parts/format.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";
import { ProduceForm } from "../parts/produce_form.js";
import { RecordRows } from "../parts/record_rows.js";
import { emptyForm, emptyQuery, fromOf, MAX_ROWS, replayForm } from "../parts/record_text.js";
import { useRecords, wholeRecord } from "../parts/record_reader.js";

/** @param {any} props */
function Records({ state, api, params }) {
  const [query, setQuery] = useState(() => queryOf(params));
  const [form, setForm] = useState(/** @type {any} */ (null));
  const [formKey, setFormKey] = useState(0);
  const [newestFirst, setNewestFirst] = useState(false);
  const [trouble, setTrouble] = useState("");
  const reader = useRecords(api);
  const browsed = useRef(false);
  const live = state.hello?.live !== false;
  useEffect(() => {
    if (!state.hello || !live || browsed.current || !query.topic) return;
    browsed.current = true;
    void reader.browse(query);
  }, [state.hello]);
  if (!live) return html`<${Empty} title="A recording has no records.">Records are read from the brokers of a live cluster.<//>`;
  const reason = reasonAgainst(state, "produce");
  const showForm = (/** @type {any} */ next) => {
    setForm(next);
    setFormKey((/** @type {number} */ n) => n + 1);
  };
  const replay = async (/** @type {any} */ record) => {
    setTrouble("");
    try {
      showForm(replayForm(reader.topic, await wholeRecord(api, reader.topic, record)));
    } catch (error) {
      setTrouble(/** @type {Error} */ (error).message);
    }
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    void reader.browse(query);
  };
  const tail = () => {
    if (reader.tailing) return reader.stop();
    setNewestFirst(true);
    return reader.tail(query);
  };
  return html`<div class="stack">
    <form class="card" aria-label="Which records" onSubmit=${submit}>
      <${QueryFields} query=${query} set=${setQuery} api=${api} />
      <div class="toolbar">
        <button class="primary" type="submit" disabled=${!query.topic || reader.busy || reader.tailing}>Browse</button>
        <button type="button" data-do="tail" aria-pressed=${reader.tailing} disabled=${!query.topic} onClick=${tail}>${reader.tailing ? "Stop" : "Tail"}</button>
        <button type="button" onClick=${reader.clear} disabled=${reader.rows.length === 0}>Clear</button>
        <label><input type="checkbox" checked=${newestFirst} onChange=${(/** @type {any} */ event) => setNewestFirst(event.target.checked)} /> newest first</label>
        <span class="spread"></span>
        <${Export} query=${query} />
        <button type="button" data-do="produce" aria-disabled=${reason === null ? null : "true"} title=${reason}
          onClick=${() => reason === null && showForm(emptyForm(query.topic))}>Produce…</button>
      </div>
    </form>
    ${form && html`<${ProduceForm} key=${formKey} form=${form} set=${setForm} api=${api} close=${() => setForm(null)}
      written=${() => !reader.tailing && reader.topic === form.topic && reader.more()} />`}
    ${(reader.problem || trouble) && html`<p class="notice bad" role="alert">${reader.problem || trouble}</p>`}
    <section class="card" aria-label="Records">
      <p class="muted" role="status">${statusText(reader)}</p>
      ${reader.rows.length > 0 && html`<${RecordRows} rows=${reader.rows} newestFirst=${newestFirst} state=${state}
        replay=${replay} />`}
      ${reader.hasMore && !reader.tailing && html`<div class="pager"><button type="button" disabled=${reader.busy} onClick=${() => reader.more()}>Read more</button></div>`}
    </section>
  </div>`;
}

/** @param {Record<string, string>} params */
function queryOf(params) {
  const query = emptyQuery();
  if (params.topic ?? params.name) query.topic = params.topic ?? params.name;
  if (params.partition) query.partition = params.partition;
  if (params.offset) Object.assign(query, { start: "offset", offset: params.offset });
  return query;
}

/** @param {ReturnType<typeof useRecords>} reader */
function statusText(reader) {
  if (reader.busy && reader.rows.length === 0) return "Reading…";
  if (!reader.topic) return "Choose a topic, then browse or tail it.";
  const parts = [reader.rows.length === 0 && !reader.tailing ? "No record matches." : count(reader.rows.length, "record")];
  if (reader.dropped) parts.push(`${number(reader.dropped)} older ones were dropped (the page keeps ${number(MAX_ROWS)})`);
  if (reader.tailing) parts.push("waiting for more");
  return parts.join("; ");
}

/** @param {{query: import("../parts/record_text.js").Query, set: (query: any) => void, api: any}} props */
function QueryFields({ query, set, api }) {
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) => set({ ...query, [name]: event.target.value });
  return html`<div class="fields">
    <label class="field"><span>topic</span><${NameInput} kind="topic" shared=${{ name: "topic", required: true }} value=${query.topic} api=${api}
      change=${(/** @type {string} */ topic) => set({ ...query, topic })} /></label>
    <label class="field"><span>partition</span><input name="partition" type="number" min="0" placeholder="all" value=${query.partition} onInput=${change("partition")} /></label>
    <label class="field"><span>from</span><select name="start" value=${query.start} onChange=${change("start")}>
      <option value="last">the last N</option><option value="earliest">the earliest</option><option value="latest">the end (only new ones)</option>
      <option value="offset">an offset</option><option value="time">a time</option></select></label>
    ${query.start === "last" && html`<label class="field"><span>N of each partition</span><input name="last" type="number" min="1" max="2000" value=${query.last} onInput=${change("last")} /></label>`}
    ${query.start === "offset" && html`<label class="field"><span>offset</span><input name="offset" type="number" min="0" value=${query.offset} onInput=${change("offset")} /></label>`}
    ${query.start === "time" && html`<label class="field"><span>time</span><input name="time" type="datetime-local" step="1" value=${query.time} onInput=${change("time")} /></label>`}
    <label class="field"><span>key or value contains</span><input name="filter" type="search" value=${query.contains} onInput=${change("contains")} /></label>
    <label class="field"><span>transactions</span><select name="uncommitted" value=${query.uncommitted ? "yes" : ""}
      onChange=${(/** @type {any} */ event) => set({ ...query, uncommitted: event.target.value === "yes" })}>
      <option value="">committed only</option><option value="yes">open and aborted, too</option></select></label>
    <label class="field"><span>at most</span><input name="limit" type="number" min="1" max="1000" value=${query.limit} onInput=${change("limit")} /></label>
  </div>`;
}

/** Links to downloads of all that the query matches, made by the page's process. @param {{query: any}} props */
function Export({ query }) {
  if (!query.topic) return null;
  const words = new URLSearchParams({ topic: query.topic, from: query.start === "latest" ? "earliest" : fromOf(query) });
  if (query.partition !== "") words.set("partition", query.partition);
  if (query.uncommitted) words.set("uncommitted", "1");
  if (query.contains) words.set("contains", query.contains);
  const link = (/** @type {string} */ format) => `api/export?${words}&format=${format}`;
  return html`<span class="row" role="group" aria-label="Export">
    <a class="button" data-export="json" href=${link("json")} download>Export JSON</a>
    <a class="button" data-export="csv" href=${link("csv")} download>Export CSV</a></span>`;
}

export const view = { path: "records", title: "Records", key: "r", component: Records };
