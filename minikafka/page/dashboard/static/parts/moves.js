/**
 * Reassignments under way: how far each is, and the time to go. Read only while there are some.
 * @module
 */
import { all } from "../reducer.js";
import { hashOf } from "../route.js";
import { bytes, count, duration } from "./format.js";
import { html } from "./html.js";
import { usePolled } from "./polled.js";
import { Table } from "./table.js";

const POLL_MS = 3000;

/** The moves of all topics, or of one. @param {{state: any, api: any, topic?: string}} props */
export function Moves({ state, api, topic }) {
  const under = all(state, "reassignment").some(({ name }) => !topic || name.startsWith(`${topic}-`));
  const polled = usePolled({ api, path: "moves", live: under && state.hello?.live !== false, everyMs: POLL_MS });
  if (!under || !polled.facts) return null;
  const rows = polled.facts.moves.filter((/** @type {any} */ row) => !topic || row.topic === topic);
  if (rows.length === 0) return null;
  const right = /** @type {const} */ ("right");
  const name = (/** @type {any} */ row) => `${row.topic}-${row.partition}`;
  const columns = [
    { key: "partition", title: "partition", value: name, render: (/** @type {any} */ row) => html`<a href=${hashOf("lanes", { name: name(row) })}>${name(row)}</a>` },
    { key: "adding", title: "to brokers" },
    { key: "removing", title: "away from" },
    { key: "percent", title: "copied", render: (/** @type {any} */ row) => html`<progress max="100" value=${row.percent}
      aria-label=${`Copied of ${name(row)}`}></progress> ${Math.floor(row.percent)}%, ${bytes(row.copied)} of ${bytes(row.total)}` },
    { key: "bytes_per_s", title: "rate", align: right, render: (/** @type {any} */ row) => (row.bytes_per_s === null ? "–" : `${bytes(row.bytes_per_s)}/s`) },
    { key: "seconds_left", title: "time to go", align: right, render: (/** @type {any} */ row) => (row.seconds_left !== null
      ? duration(1000 * Math.ceil(row.seconds_left))
      : row.bytes_per_s === 0 ? html`<span class="pill bad">stands still</span>` : "measuring…") },
  ];
  const total = topic ? rows.length : polled.facts.total;
  return html`<section class="card" aria-label="Moves">
    <h3>${count(total, "partition")} on the move</h3>
    ${polled.problem && html`<p class="notice bad" role="alert">${polled.problem}</p>`}
    <${Table} caption="Reassignments under way" columns=${columns} rows=${rows} rowKey=${name} />
    <p class="muted">The same in a shell: <code>minikafka reassign --progress --bootstrap-server ${state.hello?.bootstrap}</code></p>
  </section>`;
}
