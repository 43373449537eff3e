/**
 * The share-partitions of a share group: offsets and lag, and the records in flight with their
 * states, where a minikafka leads the partition.
 * @module
 */
import { all } from "../reducer.js";
import { count, duration, number } from "./format.js";
import { html } from "./html.js";
import { BrokerName, Node, Picture, useWidth } from "./svg.js";
import { Table } from "./table.js";
import { Twin } from "./twin.js";

/** The states of records in flight, in the order of their lives. */
const STATES = /** @type {Object<string, string>} */ ({
  available: "to be delivered, again or for the first time",
  acquired: "delivered to a member, which has them until its lock ends",
  acknowledged: "done",
  archived: "rejected, or delivered too often",
});
const HEIGHT = 34;
const MARK = 16; // px: a narrower run has no text

/**
 * Return a row for each share-partition: what the coordinator says, and what its leader shows.
 * @param {string} group
 * @param {any} facts
 * @param {import("../reducer.js").State} state
 * @returns {any[]}
 */
export function sharePartitionsOf(group, facts, state) {
  /** @type {Map<string, any>} */
  const rows = new Map();
  for (const row of facts?.share_partitions ?? []) {
    rows.set(`${row.topic}-${row.partition}`, { ...row, name: `${row.topic}-${row.partition}` });
  }
  for (const { facts: inside, broker } of all(state, "share_partition")) {
    if (inside.group !== group) continue;
    const name = `${inside.topic}-${inside.partition}`;
    const known = rows.get(name);
    if (known && known.leader !== null && known.leader !== undefined && known.leader !== broker) continue;
    rows.set(name, {
      ...known, ...inside, name, leader: broker,
      start_offset: inside.start_offset ?? known?.start_offset, lag: inside.lag ?? known?.lag,
    });
  }
  return [...rows.values()];
}

/** @param {{group: string, facts: any, state: import("../reducer.js").State}} props */
export function SharePartitions({ group, facts, state }) {
  const rows = sharePartitionsOf(group, facts, state);
  const numbers = [
    { key: "start_offset", title: "start" },
    { key: "end_offset", title: "end" },
    { key: "lag", title: "lag" },
    ...Object.keys(STATES).map((name) => ({
      key: name, title: name, value: (/** @type {any} */ row) => row.records?.[name],
    })),
    { key: "state_epoch", title: "state epoch" },
  ].map((column) => ({ ...column, align: /** @type {const} */ ("right") }));
  const columns = [
    { key: "name", title: "share-partition", render: (/** @type {any} */ row) => html`<a href=${`#/topics/${encodeURIComponent(row.topic)}`}>${row.name}</a>` },
    { key: "leader", title: "leader", render: (/** @type {any} */ row) => html`<${BrokerName} broker=${row.leader} />` },
    ...numbers,
    { key: "attempts", title: "records by deliveries", sortable: false, render: (/** @type {any} */ row) => attempts(row) },
  ];
  const shown = rows.filter((row) => row.runs?.length);
  return html`<section class="card" aria-label="Share-partitions">
    <h3>${count(rows.length, "share-partition")}</h3>
    ${rows.length > 0 && !rows.some((row) => row.records) && html`<p class="muted">
      Only a minikafka that leads a partition shows the records in flight.</p>`}
    <${Table} caption="Share-partitions of the group" columns=${columns} rows=${rows}
      rowKey=${(/** @type {any} */ row) => row.name} none="The group has not begun to read a partition." />
    ${shown.length > 0 && html`<p class="share-legend">${Object.entries(STATES).map(([name, about]) => html`<span>
      <svg width="14" height="14" aria-hidden="true"><rect class=${`share-run ${name}`} x="1" y="1" width="12" height="12" rx="2" /></svg>
      <b>${name}</b>: ${about}</span>`)}</p>`}
    ${shown.map((row) => html`<${InFlight} key=${row.name} row=${row} now=${state.at} />`)}
  </section>`;
}

/** @param {any} row */
function attempts(row) {
  const found = Object.entries(row.attempts ?? {});
  return found.map(([times, records]) => `${times}: ${number(records)}`).join(", ") || "–";
}

/** The records of a share-partition as a strip of runs. @param {{row: any, now: number}} props */
function InFlight({ row, now }) {
  const [ref, width] = useWidth(800);
  const runs = row.runs;
  const hidden = row.num_runs - runs.length;
  const end = runs[runs.length - 1].last;
  const records = end - runs[0].first + 1;
  const size = (/** @type {any} */ run) => ((run.last - run.first + 1) / records) * width;
  const at = (/** @type {any} */ run) => ((run.first - runs[0].first) / records) * width;
  const about = `${count(row.in_flight, "record")} from offset ${number(row.start_offset)} to ${number(row.end_offset)}.${
    hidden > 0 ? ` ${count(hidden, "run")} behind offset ${number(end)} are not shown.` : ""}`;
  return html`<${Twin} title=${`In flight of ${row.name}`} about=${about} rows=${runs}
    rowKey=${(/** @type {any} */ run) => run.first}
    columns=${[
      { key: "first", title: "first offset", align: "right" },
      { key: "last", title: "last offset", align: "right" },
      { key: "state", title: "state", value: (/** @type {any} */ run) => stateOf(run) },
      { key: "deliveries", title: "deliveries", align: "right" },
      { key: "member", title: "member" },
      { key: "locked_until_ms", title: "lock ends in", value: (/** @type {any} */ run) => left(run, now) },
    ]}>
    <div ref=${ref}>
      <${Picture} class="share-strip" label=${`Records in flight of ${row.name}`} width=${width} height=${HEIGHT}>
        ${runs.map((/** @type {any} */ run) => html`<${Node} key=${run.first} label=${describe(run, now)}>
          <rect class=${`share-run ${run.state} ${run.written ? "" : "unwritten"}`} x=${at(run) + 0.5} y="1"
            width=${Math.max(1, size(run) - 1)} height=${HEIGHT - 2} rx="3" />
          ${size(run) > MARK && html`<text x=${at(run) + size(run) / 2} y=${HEIGHT / 2 + 4} text-anchor="middle">${run.deliveries}×</text>`}
        <//>`)}
      <//>
    </div>
  <//>`;
}

/** @param {any} run */
function stateOf(run) {
  return run.written ? run.state : `${run.state}, being written`;
}

/** @param {any} run @param {number} now */
function left(run, now) {
  if (run.locked_until_ms === null) return "";
  return duration(Math.max(0, Math.ceil((run.locked_until_ms - now) / 1000)) * 1000);
}

/** @param {any} run @param {number} now */
function describe(run, now) {
  const offsets = run.first === run.last ? `offset ${run.first}` : `offsets ${run.first} to ${run.last}`;
  const member = run.member ? ` by ${run.member}` : "";
  const lock = left(run, now);
  return `${offsets}: ${stateOf(run)}${member}${lock && `, for ${lock}`}; ${count(run.deliveries, "delivery", "deliveries")}`;
}
