/**
 * The view "Transactions": swim lanes over time, a table, and transactions that hang.
 * @module
 */
import { addressed, hashOf } from "../route.js";
import { Empty } from "../parts/empty.js";
import { dateTime, duration, number, time } from "../parts/format.js";
import { html } from "../parts/html.js";
import { HangingTransactions } from "../parts/hanging_transactions.js";
import { SwimLanes, STATE_SIGNS } from "../parts/swim_lanes.js";
import { BrokerName } from "../parts/svg.js";
import { Table } from "../parts/table.js";
import { isOpen, lanesOf, transactionRows } from "../parts/transaction_lanes.js";

const PAGE = 20; // lanes

/** @param {any} props */
function Transactions({ state, api }) {
  const [search, setSearch] = addressed("name");
  const [open, setOpen] = addressed("open");
  const [seconds, setSeconds] = addressed("seconds");
  // A transaction of learn mode lasts for milliseconds of a virtual clock.
  const windowMs = Number(seconds) * 1000 || (document.documentElement.dataset.mode === "learn" ? 1000 : 60_000);
  const lanes = lanesOf(state).filter((lane) => lane.name.includes(search) && (!open || isOpen(lane.row.state)));
  const rows = transactionRows(state).filter((row) => row.name.includes(search) && (!open || isOpen(row.state)));
  const any = transactionRows(state).length > 0;
  return html`<div class="stack">
    ${any && html`<div class="toolbar">
      <label><span class="hidden">Search transactional ids</span><input type="search" placeholder="Search transactional ids" value=${search}
        onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} /></label>
      <label><input type="checkbox" checked=${open !== ""} onChange=${(/** @type {any} */ event) => setOpen(event.target.checked ? "1" : null)} /> only open ones</label>
      <label>time <select value=${String(windowMs)} onChange=${(/** @type {any} */ event) => setSeconds(String(event.target.value / 1000))}>
        <option value="1000">last second</option><option value="15000">last 15 s</option><option value="60000">last minute</option>
        <option value="300000">last 5 minutes</option><option value="1800000">last 30 minutes</option>
      </select></label>
    </div>`}
    ${any
      ? html`<${SwimLanes} lanes=${lanes.slice(0, PAGE)} more=${Math.max(0, lanes.length - PAGE)} now=${state.at} windowMs=${windowMs} />
        <${Rows} rows=${rows} now=${state.at} />`
      : html`<${Empty} title="No transactional id is known.">A producer with <code>transactional.id</code> appears here when it
        initialises its transactions.<//>`}
    <${HangingTransactions} state=${state} api=${api} />
  </div>`;
}

/** @param {any} props */
function Rows({ rows, now }) {
  const right = /** @type {const} */ ("right");
  const columns = [
    { key: "name", title: "transactional id", render: (/** @type {any} */ row) => html`<span class="id">${row.name}</span>` },
    { key: "state", title: "state", render: (/** @type {any} */ row) => html`<span class=${`txn-state ${row.state}`}><span aria-hidden="true">${STATE_SIGNS[row.state] ?? "·"}</span> ${row.state}</span>
      ${row.late && html` <span class="pill bad">past its time-out</span>`}` },
    { key: "coordinator", title: "coordinator", render: (/** @type {any} */ row) => html`<${BrokerName} broker=${row.coordinator} />` },
    { key: "producer_id", title: "producer id", align: right, render: (/** @type {any} */ row) => row.producer_id },
    { key: "producer_epoch", title: "epoch", align: right },
    { key: "start_ms", title: "started", render: (/** @type {any} */ row) => html`<span class="nowrap" title=${dateTime(row.start_ms)}>${time(row.start_ms).slice(0, 8)}</span>` },
    { key: "open", title: "open for", align: right, value: (/** @type {any} */ row) => (row.start_ms === null ? null : now - row.start_ms),
      render: (/** @type {any} */ row) => (row.start_ms === null ? "–" : duration(Math.max(0, now - row.start_ms))) },
    { key: "timeout_ms", title: "time-out", align: right, render: (/** @type {any} */ row) => duration(row.timeout_ms) },
    { key: "partitions", title: "partitions", sortable: false, render: (/** @type {any} */ row) => html`${row.partitions.slice(0, 8).map((/** @type {string} */ name, /** @type {number} */ i) =>
      html`${i > 0 ? ", " : ""}<a href=${hashOf("lanes", { name })}>${name}</a>`)}${row.partitions.length > 8 ? ` and ${row.partitions.length - 8} more` : ""}${row.partitions.length ? "" : "–"}` },
    { key: "unmarked", title: "unmarked", align: right, render: (/** @type {any} */ row) => number(row.unmarked) },
  ];
  return html`<section class="card" aria-label="Table of transactions">
    <${Table} caption="Transactional ids" columns=${columns} rows=${rows} rowKey=${(/** @type {any} */ row) => row.name} pageSize=${50} none="No transactional id matches." />
  </section>`;
}

export const view = { path: "transactions", title: "Transactions", key: "6", component: Transactions };
