/** The view "Fetch sessions": who fetches incrementally, and how much that saves (KIP-227). */

import { OnlyMinikafka } from "../parts/empty.js";
import { brief, bytes, count, duration, number } from "../parts/format.js";
import { html } from "../parts/html.js";
import { BrokerName } from "../parts/svg.js";
import { Twin } from "../parts/twin.js";
import { all } from "../reducer.js";

/** @typedef {import("../reducer.js").State} State */
/**
 * @typedef {{id: string, broker: number, epoch: number, partitions: number, ofFollower: boolean,
 *   ageMs: number|null, savedRows: number, savedBytes: number, exact: boolean}} SessionRow
 */

// A partition in a Fetch request of version 12: number, two epochs, two offsets, size, tags.
const ROW_BYTES = 33;
const SHOWN = 60;
const SINCE_1970 = 1e12; // an older broker's times are of its own clock

/**
 * Return the sessions of all brokers. Facts may say what was saved; otherwise each fetch after the
 * first is taken to have named no partition, which is the most that a session can save.
 *
 * @param {State} state
 * @returns {SessionRow[]}
 */
export function sessionRows(state) {
  return all(state, "session").map(({ name, broker, facts }) => {
    const later = Math.max(0, facts.epoch - 1);
    const exact = facts.bytes_saved !== undefined || facts.partitions_saved !== undefined;
    const savedRows = facts.partitions_saved ?? later * facts.partitions;
    return {
      id: name,
      broker: Number(broker),
      epoch: facts.epoch,
      partitions: facts.partitions,
      ofFollower: Boolean(facts.of_follower),
      ageMs: facts.created_ms > SINCE_1970 ? Math.max(0, state.at - facts.created_ms) : null,
      savedRows,
      savedBytes: facts.bytes_saved ?? savedRows * ROW_BYTES,
      exact,
    };
  });
}

/** @param {{state: State}} props */
function Component({ state }) {
  const rows = sessionRows(state);
  if (!rows.length && !all(state, "broker").length)
    return html`<${OnlyMinikafka} state=${state} what="its fetch sessions" />`;
  const saved = rows.reduce((sum, row) => sum + row.savedBytes, 0);
  const followers = rows.filter(({ ofFollower }) => ofFollower).length;
  const exact = rows.every((row) => row.exact);
  return html`<div class="inner">
    <p class="lead">A client with a fetch session names its partitions once; afterwards its fetches, and the responses, name only
      those that have changed. The epoch of a session counts its fetches.</p>
    <div class="figures">
      <p><b>${number(rows.length)}</b> ${rows.length === 1 ? "session" : "sessions"}</p>
      <p><b>${number(followers)}</b> of followers</p>
      <p><b>${number(rows.length - followers)}</b> of consumers</p>
      <p><b>${exact ? "" : "up to "}${bytes(saved)}</b> saved in requests</p>
    </div>
    <${Sessions} rows=${rows} exact=${exact} />
  </div>`;
}

/** @param {{rows: SessionRow[], exact: boolean}} props */
function Sessions({ rows, exact }) {
  const right = /** @type {"right"} */ ("right");
  const columns = [
    {
      key: "broker",
      title: "On",
      render: (/** @type {SessionRow} */ row) => html`<${BrokerName} broker=${row.broker} />`,
    },
    { key: "id", title: "Session", align: right },
    {
      key: "ofFollower",
      title: "Of",
      value: (/** @type {SessionRow} */ row) => (row.ofFollower ? "follower" : "consumer"),
    },
    { key: "epoch", title: "Epoch", align: right },
    { key: "partitions", title: "Partitions", align: right },
    {
      key: "ageMs",
      title: "Open for",
      render: (/** @type {SessionRow} */ row) => duration(row.ageMs),
      align: right,
    },
    {
      key: "savedRows",
      title: exact ? "Partitions not named" : "Partitions not named, up to",
      align: right,
    },
    {
      key: "savedBytes",
      title: exact ? "Saved" : "Saved, up to",
      render: (/** @type {SessionRow} */ row) => bytes(row.savedBytes),
      align: right,
    },
  ];
  return html`<${Twin} title="Sessions" columns=${columns} rows=${rows} rowKey=${(/** @type {SessionRow} */ row) => `${row.broker} ${row.id}`}
    about="Each square is a partition that the client need not name again.">
    ${
      rows.length
        ? html`<ul class="sessions">${rows.map(
            (row) => html`<li key=${`${row.broker} ${row.id}`} class="session" data-entity=${`session|${row.broker}|${row.id}`}>
      <p><${BrokerName} broker=${row.broker} /> <span class="pill quiet">${row.ofFollower ? "follower" : "consumer"}</span>
        <span class="muted mono">${row.id}</span></p>
      <${Squares} row=${row} />
      <p class="muted">epoch <b class="epoch">${number(row.epoch)}</b>, ${count(row.partitions, "partition")}${row.ageMs === null ? "" : `, open for ${duration(row.ageMs)}`};
        ${row.exact ? "" : " up to"} ${brief(row.savedRows)} rows (${bytes(row.savedBytes)}) not sent</p></li>`,
          )}</ul>`
        : html`<p class="muted">No client has a fetch session at the moment.</p>`
    }
  <//>`;
}

/** @param {{row: SessionRow}} props */
function Squares({ row }) {
  const shown = Math.min(row.partitions, SHOWN);
  const more = row.partitions - shown;
  const perLine = 20;
  const size = 9;
  const lines = Math.max(1, Math.ceil(shown / perLine));
  return html`<svg class="squares" role="img" aria-label=${count(row.partitions, "partition")} width=${perLine * size + 40} height=${lines * size}
    viewBox=${`0 0 ${perLine * size + 40} ${lines * size}`}>${Array.from(
      { length: shown },
      (_, i) => html`<rect key=${i}
      x=${(i % perLine) * size} y=${Math.floor(i / perLine) * size} width=${size - 2} height=${size - 2} rx=${row.ofFollower ? 1 : 4} />`,
    )}
    ${more > 0 && html`<text x=${perLine * size + 3} y=${lines * size - 2}>+${more}</text>`}</svg>`;
}

export const view = { path: "sessions", title: "Fetch sessions", key: "8", component: Component };
