/**
 * The offsets of a group by partition, each with a field for an exact new offset beside the end.
 * @module
 */
import { ActButton, reasonAgainst } from "./act.js";
import { count, lagTime, number } from "./format.js";
import { html, useState } from "./html.js";
import { hashOf } from "../route.js";
import { Table } from "./table.js";

/**
 * `fixed` offsets are not reset here: those of a streams group belong to its state.
 * @param {{group: string, phase: string|undefined, offsets: import("./lag_history.js").Offset[], fixed: boolean, state: any, api: any, done: () => void}} props
 */
export function GroupOffsets({ group, phase, offsets, fixed, state, api, done }) {
  const [wanted, setWanted] = useState(/** @type {Record<string, string>} */ ({}));
  const may = !fixed && state.hello?.live !== false && reasonAgainst(state, "groups-reset-offsets") === null;
  const timed = offsets.some((/** @type {any} */ offset) => offset.lag_ms !== undefined);
  const rows = offsets.map((offset) => ({ ...offset, name: `${offset.topic}:${offset.partition}` }));
  const set = (/** @type {string} */ name, /** @type {string} */ value) => setWanted((/** @type {any} */ before) => ({ ...before, [name]: value }));
  const chosen = rows.filter((row) => /^\d+$/.test(wanted[row.name] ?? ""));
  const text = chosen.map((row) => `${row.name}=${wanted[row.name]}`).join(",");
  const fill = (/** @type {(row: any) => number|null} */ of) =>
    setWanted(Object.fromEntries(rows.map((row) => [row.name, String(of(row) ?? "")])));
  const columns = [
    { key: "topic", title: "topic", render: (/** @type {any} */ row) => html`<a href=${`#/topics/${encodeURIComponent(row.topic)}`}>${row.topic}</a>` },
    { key: "partition", title: "partition", align: "right" },
    { key: "committed", title: "committed", align: "right", render: (/** @type {any} */ row) => html`<a
      title="The next records of the group" href=${hashOf("records", { topic: row.topic, partition: row.partition, from: `offset:${row.committed}` })}>${number(row.committed)}</a>` },
    { key: "log_end_offset", title: "end offset", align: "right" },
    { key: "lag", title: "lag", align: "right", render: (/** @type {any} */ row) => html`<${Lag} row=${row} />` },
    ...(timed ? [{ key: "lag_ms", title: "lag in time", align: "right", render: (/** @type {any} */ row) => lagTime(row) }] : []),
    { key: "metadata", title: "metadata" },
    ...(may ? [{ key: "wanted", title: "new offset", sortable: false, render: (/** @type {any} */ row) => html`<${NewOffset} row=${row} value=${wanted[row.name] ?? ""} set=${set} />` }] : []),
  ];
  return html`<section class="card" aria-label="Offsets">
    <h3>Offsets</h3>
    <${Table} caption="Committed offsets of the group" columns=${columns} rows=${rows}
      rowKey=${(/** @type {any} */ row) => row.name} none="The group has committed no offsets." />
    ${may && rows.length > 0 && html`<div class="toolbar">
      <button type="button" class="small" onClick=${() => fill((row) => row.committed)}>Fill with committed</button>
      <button type="button" class="small" onClick=${() => fill((row) => row.log_end_offset)}>Fill with end</button>
      <button type="button" class="small" onClick=${() => setWanted({})}>Clear</button>
      <span class="spread"></span>
      <${ActButton} act="groups-reset-offsets" label="Reset to earliest, latest or a time…" args=${{ group }} fixed=${["group"]}
        only=${["group", "topic", "partition", "to", "datetime", "duration", "shift_by"]} state=${state} api=${api} done=${done} />
      ${chosen.length > 0
        ? html`<${ActButton} act="groups-reset-offsets" label=${`Reset ${count(chosen.length, "offset")}…`} className="primary"
            args=${{ group, offsets: text }} fixed=${["group", "offsets"]} only=${["group", "offsets"]} state=${state} api=${api}
            done=${() => { setWanted({}); done(); }} />`
        : html`<button type="button" class="primary" disabled title="Write a new offset beside an end offset first.">Reset offsets…</button>`}
    </div>`}
    ${may && !["Empty", "Dead", undefined].includes(phase) && html`<p class="muted">
      Brokers refuse to reset offsets while the group has members: stop its consumers first.</p>`}
  </section>`;
}

/** @param {{row: any}} props */
function Lag({ row }) {
  if (!row.lag) return number(row.lag);
  const share = row.log_end_offset ? Math.min(1, row.lag / row.log_end_offset) : 0;
  return html`<span class="lag"><meter min="0" max="1" value=${share} aria-hidden="true"></meter> ${number(row.lag)}</span>`;
}

/** @param {{row: any, value: string, set: (name: string, value: string) => void}} props */
function NewOffset({ row, value, set }) {
  const end = row.log_end_offset;
  const beyond = end !== null && value !== "" && Number(value) > end;
  return html`<label class="new-offset">
    <input type="number" min="0" max=${end} inputmode="numeric" value=${value} aria-invalid=${beyond}
      aria-label=${`New offset of ${row.name}`} data-offset=${row.name}
      onInput=${(/** @type {any} */ event) => set(row.name, event.target.value)} />
    <span class="muted">of ${number(end)}</span>
    ${beyond && html`<span class="pill bad">beyond the end</span>`}
  </label>`;
}
