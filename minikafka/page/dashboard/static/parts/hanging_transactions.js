/**
 * Transactions that no coordinator is going to end: a search on request, and a button that aborts.
 * @module
 */
import { all } from "../reducer.js";
import { ActButton, reasonAgainst } from "./act.js";
import { dateTime, number } from "./format.js";
import { html, useState } from "./html.js";
import { Table } from "./table.js";

const NAMES = {
  Topic: "topic", Partition: "partition", ProducerId: "producer id", ProducerEpoch: "epoch", StartOffset: "start offset",
};

/** @param {{state: any, api: any}} props */
export function HangingTransactions({ state, api }) {
  const [found, setFound] = useState(/** @type {any[]|null} */ (null));
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [minutes, setMinutes] = useState("15");
  if (state.hello?.live === false) return null;
  const reason = reasonAgainst(state, "transactions-abort");
  const search = async () => {
    setBusy(true);
    setProblem("");
    try {
      setFound(await hanging(state, api, Number(minutes)));
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
    setBusy(false);
  };
  const shared = { state, api, done: search };
  const columns = [
    ...Object.entries(NAMES).map(([key, title]) => ({
      key, title, align: key === "Topic" ? /** @type {const} */ ("left") : /** @type {const} */ ("right"), render: (/** @type {any} */ row) => row[key],
    })),
    { key: "LastTimestamp", title: "last record", render: (/** @type {any} */ row) => dateTime(row.LastTimestamp) },
    { key: "abort", title: "", sortable: false, render: (/** @type {any} */ row) => html`<${ActButton} act="transactions-abort" label="Abort…"
      className="small danger" args=${{ topic: row.Topic, partition: row.Partition, start_offset: row.StartOffset }}
      only=${["topic", "partition", "start_offset"]} fixed=${["topic", "partition", "start_offset"]} ...${shared} />` },
  ];
  return html`<section class="card" aria-label="Hanging transactions">
    <h3>Hanging transactions</h3>
    <p class="muted">A transaction hangs if it is open in a partition, its last record is old, and its coordinator does not know
      it. It holds the last stable offset back, so consumers that read committed records stop there.</p>
    <div class="toolbar">
      <label>older than <input type="number" min="0" max="100000" value=${minutes} class="short"
        onInput=${(/** @type {any} */ event) => setMinutes(event.target.value)} /> minutes</label>
      <button type="button" disabled=${busy || reason !== null} title=${reason} onClick=${search}>${busy ? "Searching…" : "Find hanging transactions"}</button>
      <${ActButton} act="transactions-abort" label="Abort one by its offset…" ...${shared} />
    </div>
    ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
    ${found && html`<p role="status">${number(found.length)} found.</p>`}
    ${found && found.length > 0 && html`<${Table} caption="Hanging transactions" columns=${columns} rows=${found}
      rowKey=${(/** @type {any} */ row) => `${row.Topic}-${row.Partition}-${row.StartOffset}`} />`}
  </section>`;
}

/**
 * Search broker by broker; a partition is on several, so rows come once only.
 * @param {any} state
 * @param {any} api
 * @param {number} minutes
 * @returns {Promise<any[]>}
 */
async function hanging(state, api, minutes) {
  const brokers = all(state, "node").filter(({ facts }) => facts.online).map(({ facts }) => facts.id);
  /** @type {Map<string, any>} */
  const rows = new Map();
  for (const broker of brokers) {
    const reply = await api.do("transactions-find-hanging", { broker_id: broker, max_transaction_timeout: minutes });
    if ((reply.status ?? 0) !== 0) throw new Error(reply.errors || "The search failed.");
    for (const row of Array.isArray(reply.output) ? reply.output : []) {
      rows.set(`${row.Topic}-${row.Partition}-${row.ProducerId}`, row);
    }
  }
  return [...rows.values()];
}
