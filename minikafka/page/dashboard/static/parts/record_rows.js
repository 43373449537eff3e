/**
 * A table of records. A row opens to the whole record: indented JSON, headers, sizes.
 * @module
 */
import { reasonAgainst } from "./act.js";
import { copyText } from "./clipboard.js";
import { bytes, dateTime, time } from "./format.js";
import { Component, html, useMemo, useState } from "./html.js";
import { oneLine, prettyJson, recordId } from "./record_text.js";

const COLUMNS = 6;

/**
 * @param {{rows: import("./record_text.js").KafkaRecord[], newestFirst: boolean, state: any, replay: (record: any) => void}} props
 */
export function RecordRows({ rows, newestFirst, state, replay }) {
  const [open, setOpen] = useState(/** @type {Set<string>} */ (new Set()));
  const turn = (/** @type {string} */ id) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  const reason = reasonAgainst(state, "produce");
  // The same node again is not compared: a message of the stream does not touch 2,000 rows.
  return useMemo(() => tableOf({ rows, newestFirst, open, turn, replay, reason }), [rows, newestFirst, open, reason]);
}

/** @param {any} props */
function tableOf({ rows, newestFirst, open, turn, replay, reason }) {
  const shown = newestFirst ? [...rows].reverse() : rows;
  return html`<div class="table-wrap records" role="region" aria-label="Records" tabindex="0"><table>
    <caption class="hidden">Records</caption>
    <thead><tr><th scope="col"><span class="hidden">open</span></th><th scope="col" class="num">partition</th><th scope="col" class="num">offset</th>
      <th scope="col" class="when">time</th><th scope="col">key</th><th scope="col">value</th></tr></thead>
    <tbody>${shown.map((/** @type {any} */ record) => {
      const id = recordId(record);
      return html`<${Row} key=${id} id=${id} record=${record} open=${open.has(id)} turn=${turn} replay=${replay} reason=${reason} />`;
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
    const { id, record, open, turn, replay, reason } = this.props;
    return [
      html`<tr class=${open ? "open" : ""} data-record=${id}>
        <td><button class="disclose" aria-expanded=${open} aria-label=${`Record ${id}`} onClick=${() => turn(id)}>${open ? "▾" : "▸"}</button></td>
        <td class="num">${record.partition}</td>
        <td class="num">${record.offset}</td>
        <td class="nowrap when" title=${dateTime(record.timestamp)}>${when(record.timestamp)}</td>
        <td class="mono"><${Text} text=${record.key} encoding=${record.encoding?.key} most=${60} /></td>
        <td class="mono" onClick=${() => turn(id)}><${Text} text=${record.value} encoding=${record.encoding?.value} most=${160} />
          ${record.headers?.length > 0 && html` <span class="tag">${record.headers.length} header${record.headers.length > 1 ? "s" : ""}</span>`}
          ${record.truncated && html` <span class="tag">cut</span>`}</td>
      </tr>`,
      open && html`<tr class="record-detail"><td colspan=${COLUMNS}><${Detail} record=${record} replay=${replay} reason=${reason} /></td></tr>`,
    ];
  }
}

/** The time of a record of today, or date and time. @param {number} at */
function when(at) {
  return new Date(at).toDateString() === new Date().toDateString() ? time(at) : dateTime(at);
}

/** @param {{text: string|null, encoding: string|undefined, most: number}} props */
function Text({ text, encoding, most }) {
  if (text === null || text === undefined) return html`<span class="tag quiet">null</span>`;
  if (text === "") return html`<span class="muted">(empty)</span>`;
  return html`${encoding === "base64" && html`<span class="tag">base64</span> `}${oneLine(text, most)}`;
}

/** @param {{record: import("./record_text.js").KafkaRecord, replay: (record: any) => void, reason: string|null}} props */
function Detail({ record, replay, reason }) {
  const [raw, setRaw] = useState(false);
  const [copied, setCopied] = useState(false);
  const pretty = record.encoding?.value === "base64" ? null : prettyJson(record.value);
  const text = record.value === null ? null : pretty !== null && !raw ? pretty : record.value;
  const copy = async () => setCopied(await copyText(record.value ?? ""));
  return html`<div class="record-body">
    <div class="toolbar">
      <span class="muted">partition ${record.partition}, offset ${record.offset}, ${dateTime(record.timestamp)},
        key ${bytes(record.key_size)}, value ${bytes(record.value_size)}</span>
      <span class="spread"></span>
      ${pretty !== null && html`<button class="small" aria-pressed=${raw} onClick=${() => setRaw(!raw)}>as it is</button>`}
      <button class="small" onClick=${copy}>${copied ? "copied" : "Copy value"}</button>
      <button class="small" aria-disabled=${reason === null ? null : "true"} title=${reason ?? "Fill the form with this record"}
        onClick=${() => reason === null && replay(record)}>Edit and replay</button>
    </div>
    ${record.truncated && html`<p class="notice warn">The record is too large to be shown whole; the form of a replay has all of it.</p>`}
    ${record.headers?.length > 0 && html`<table class="headers"><caption class="hidden">Headers</caption>
      <thead><tr><th scope="col">header</th><th scope="col">value</th></tr></thead>
      <tbody>${record.headers.map(([name, value]) => html`<tr><td><code>${name}</code></td><td><code>${value ?? "null"}</code></td></tr>`)}</tbody></table>`}
    ${record.key !== null && html`<p><span class="muted">key</span> <code>${record.key}</code></p>`}
    <pre tabindex="0" aria-label="Value">${text ?? "null (a tombstone)"}</pre>
  </div>`;
}
