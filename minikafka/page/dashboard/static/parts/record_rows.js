/**
 * A table of records. A row opens to the whole record: indented JSON, headers, sizes.
 * @module
 */
import { reasonAgainst } from "./act.js";
import { copyText } from "./clipboard.js";
import { bytes, dateTime, time } from "./format.js";
import { Component, html, useMemo, useState } from "./html.js";
import { addressOf, emptyQuery } from "./record_query.js";
import { oneLine, prettyJson, recordId, schemaText, shownPart } from "./record_text.js";
import { hashOf } from "../route.js";
import { VIEWS } from "../views/index.js";

const COLUMNS = 6;

/**
 * @param {{rows: import("./record_text.js").KafkaRecord[], query: import("./record_query.js").Query, newestFirst: boolean, state: any, replay: (record: any) => void}} props
 */
export function RecordRows({ rows, query, newestFirst, state, replay }) {
  const [open, setOpen] = useState(/** @type {Set<string>} */ (new Set()));
  // Rows keep the function of the time when they were drawn, so it takes the set of now.
  const turn = (/** @type {string} */ id) => setOpen((/** @type {Set<string>} */ before) => {
    const next = new Set(before);
    if (!next.delete(id)) next.add(id);
    return next;
  });
  const reason = reasonAgainst(state, "produce");
  // The same node again is not compared: a message of the stream does not touch 2,000 rows.
  return useMemo(() => tableOf({ rows, query, newestFirst, open, turn, replay, reason }), [rows, newestFirst, open, reason]);
}

/** @param {any} props */
function tableOf({ rows, query, newestFirst, open, turn, replay, reason }) {
  const shown = newestFirst ? [...rows].reverse() : rows;
  return html`<div class="table-wrap records" role="region" aria-label="Records" tabindex="0"><table>
    <caption class="hidden">Records</caption>
    <thead><tr><th scope="col"><span class="hidden">open</span></th><th scope="col" class="num">partition</th><th scope="col" class="num">offset</th>
      <th scope="col" class="when">time</th><th scope="col">key</th><th scope="col">value</th></tr></thead>
    <tbody>${shown.map((/** @type {any} */ record) => {
      const id = recordId(record);
      return html`<${Row} key=${id} id=${id} record=${record} query=${query} open=${open.has(id)} turn=${turn} replay=${replay} reason=${reason} />`;
    })}</tbody>
  </table></div>`;
}

/** A class, so that the other rows are not drawn again when a tail adds one. */
class Row extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    const { record, open, reason } = this.props;
    return next.record !== record || next.open !== open || next.reason !== reason;
  }

  render() {
    const { id, record, query, open, turn, replay, reason } = this.props;
    return [
      html`<tr class=${open ? "open" : ""} data-record=${id}>
        <td><button class="disclose" aria-expanded=${open} aria-label=${`Record ${id}`} onClick=${() => turn(id)}>${open ? "▾" : "▸"}</button></td>
        <td class="num">${record.partition}</td>
        <td class="num">${record.offset}</td>
        <td class="nowrap when" title=${dateTime(record.timestamp)}>${when(record.timestamp)}</td>
        <td class="mono"><${Text} part=${shownPart(record, "key")} most=${60} /></td>
        <td class="mono" onClick=${() => turn(id)}><${Text} part=${shownPart(record, "value")} most=${160} />
          ${record.headers?.length > 0 && html` <span class="tag">${record.headers.length} header${record.headers.length > 1 ? "s" : ""}</span>`}
          ${record.truncated && html` <span class="tag">cut</span>`}</td>
      </tr>`,
      open && html`<tr class="record-detail"><td colspan=${COLUMNS}><${Detail} record=${record} query=${query} replay=${replay} reason=${reason} /></td></tr>`,
    ];
  }
}

/** The time of a record of today, or date and time. @param {number} at */
function when(at) {
  return new Date(at).toDateString() === new Date().toDateString() ? time(at) : dateTime(at);
}

/** @param {{part: ReturnType<typeof shownPart>, most: number}} props */
function Text({ part: { text, as, error, hint }, most }) {
  if (text === null) return html`<span class="tag quiet">null</span>`;
  if (text === "") return html`<span class="muted">(empty)</span>`;
  return html`${as && html`<span class="tag">${as}</span> `}${error && html`<span class="tag bad" title=${error}>not decoded</span> `}${oneLine(text, most)}${hint && html` <span class="muted">${hint}</span>`}`;
}

/** @param {{record: import("./record_text.js").KafkaRecord, query: import("./record_query.js").Query, replay: (record: any) => void, reason: string|null}} props */
function Detail({ record, query, replay, reason }) {
  const [raw, setRaw] = useState(false);
  const [copied, setCopied] = useState(false);
  const [key, value] = [shownPart(record, "key"), shownPart(record, "value")];
  const nice = value.as === "base64" ? value.text : prettyJson(value.text) ?? value.text;
  const text = raw ? record.value : nice;
  const copy = async () => setCopied(await copyText(text ?? ""));
  return html`<div class="record-body">
    <div class="toolbar">
      <span class="muted">partition ${record.partition}, offset ${record.offset}, ${dateTime(record.timestamp)},
        key ${bytes(record.key_size)}, value ${bytes(record.value_size)}</span>
      <span class="spread"></span>
      <a class="button small" href=${hashOf("records", placeOf(record, query))} title="An address that shows this record">Link</a>
      ${nice !== record.value && html`<button class="small" aria-pressed=${raw} onClick=${() => setRaw(!raw)}>as it is</button>`}
      <button class="small" onClick=${copy}>${copied ? "copied" : "Copy value"}</button>
      <button class="small" aria-disabled=${reason === null ? null : "true"} title=${reason ?? "Fill the form with this record"}
        onClick=${() => reason === null && replay(record)}>Edit and replay</button>
    </div>
    ${record.truncated && html`<p class="notice warn">The record is too large to be shown whole; the form of a replay has all of it.</p>`}
    ${record.headers?.length > 0 && html`<table class="headers"><caption class="hidden">Headers</caption>
      <thead><tr><th scope="col">header</th><th scope="col">value</th></tr></thead>
      <tbody>${record.headers.map(([name, shown, encoding]) => html`<tr><td><code>${name}</code></td>
        <td>${encoding && html`<span class="tag">${encoding}</span> `}<code>${shown ?? "null"}</code></td></tr>`)}</tbody></table>`}
    ${record.key !== null && html`<p><span class="muted">key</span> ${key.as && html`<span class="tag">${key.as}</span> `}<code>${key.text}</code> <span class="muted">${key.hint}</span></p>`}
    <${About} title="key" part=${key} /><${About} title="value" part=${value} />
    <pre tabindex="0" aria-label="Value">${raw && record.encoding?.value === "base64" && html`<span class="tag">base64</span> `}${text ?? "null (a tombstone)"}</pre>
  </div>`;
}

/** The schema of a key or a value, or why it is not decoded. @param {{title: string, part: ReturnType<typeof shownPart>}} props */
function About({ title, part: { schema, error } }) {
  return html`${schema && html`<p class="muted" data-schema=${title}>${title}: <${Schema} schema=${schema} /></p>`}
    ${error && html`<p class="notice warn">The ${title} could not be decoded: ${error}</p>`}`;
}

/** @param {{schema: import("./record_text.js").Schema}} props */
function Schema({ schema }) {
  const text = schemaText(schema);
  if (!schema.subject || !VIEWS.some(({ path }) => path === "registry")) return text;
  return html`<a href=${hashOf("registry", { name: schema.subject, version: schema.version })}>${text}</a>`;
}

/** The address of one record. @param {import("./record_text.js").KafkaRecord} record @param {import("./record_query.js").Query} query */
function placeOf(record, { topic, transactions, key_as, value_as }) {
  const place = { topic, partition: String(record.partition), start: "offset", offset: String(record.offset), limit: "1" };
  return addressOf({ ...emptyQuery(), ...place, transactions, key_as, value_as });
}
