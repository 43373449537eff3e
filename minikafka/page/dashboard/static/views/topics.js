/**
 * The view "Topics": a list with search, and one topic with its partitions, settings and acts.
 * @module
 */
import { all } from "../reducer.js";
import { hashOf } from "../route.js";
import { ActButton } from "../parts/act.js";
import { brief, bytes } from "../parts/format.js";
import { html, useState } from "../parts/html.js";
import { Moves } from "../parts/moves.js";
import { NameList } from "../parts/name_list.js";
import { TopicDetail } from "../parts/topic_detail.js";

/** @param {any} props */
function Topics({ state, api, go, params }) {
  const [changes, setChanges] = useState(0);
  if (params.name) {
    return html`<${TopicDetail} key=${params.name} name=${params.name} state=${state} api=${api} go=${go} />`;
  }
  const live = state.hello?.live !== false;
  const columns = [
    { key: "partitions", title: "partitions", align: /** @type {const} */ ("right") },
    { key: "replication_factor", title: "replicas", align: /** @type {const} */ ("right") },
    ...(live ? FIGURES : []),
    { key: "health", title: "health", value: (/** @type {any} */ row) => row.offline * 1e6 + row.under_replicated,
      render: (/** @type {any} */ row) => html`<${Health} row=${row} />` },
    { key: "internal", title: "", sortable: false, render: (/** @type {any} */ row) => (row.internal ? html`<span class="tag">internal</span>` : "") },
  ];
  const created = (/** @type {any} */ values) => {
    setChanges((/** @type {number} */ n) => n + 1);
    if (values?.topic) go("topics", { name: values.topic });
  };
  return html`<div class="stack">
    <${Moves} state=${state} api=${api} />
    <${NameList} kind="topics" label="topics" nameOf=${(/** @type {any} */ row) => row.name} columns=${columns}
      href=${(/** @type {string} */ name) => hashOf("topics", { name })} params=${params} isSick=${isSick} api=${api} live=${live}
      local=${() => topicsOf(state)} changed=${changes}
      tools=${html`<${ActButton} act="topics-create" label="Create topic…" className="primary" state=${state} api=${api}
        done=${(/** @type {any} */ _, /** @type {any} */ sent) => created(sent)} />`} />
  </div>`;
}

/** What the page's process knows of topics, once it has looked twice. */
const FIGURES = [
  { key: "records_per_s", title: "records/s", align: /** @type {const} */ ("right"), render: (/** @type {any} */ row) => brief(row.records_per_s) },
  { key: "size_bytes", title: "size", align: /** @type {const} */ ("right"), render: (/** @type {any} */ row) => bytes(row.size_bytes) },
];

/** @param {any} row */
function isSick(row) {
  return row.offline > 0 || row.under_replicated > 0;
}

/** @param {{row: any}} props */
function Health({ row }) {
  if (row.offline > 0) return html`<span class="pill bad">${row.offline} offline</span>`;
  if (row.under_replicated > 0) return html`<span class="pill warn">${row.under_replicated} under-replicated</span>`;
  return html`<span class="pill good">in sync</span>`;
}

/**
 * Return the rows of a list from a recording: the topics of the protocol, else those whose
 * partitions brokers report.
 * @param {import("../reducer.js").State} state
 * @returns {any[]}
 */
export function topicsOf(state) {
  /** @type {Map<string, any>} */
  const rows = new Map();
  for (const { name, facts } of all(state, "topic")) rows.set(name, rowOf(facts));
  if (rows.size > 0) return [...rows.values()];
  for (const { name, facts } of all(state, "partition")) {
    if (!facts.is_leader) continue;
    const topic = name.slice(0, name.lastIndexOf("-"));
    const row = rows.get(topic) ?? {
      name: topic, internal: topic.startsWith("__"), partitions: 0, replication_factor: 0, under_replicated: 0, offline: 0,
    };
    row.partitions += 1;
    row.replication_factor = Math.max(row.replication_factor, facts.replicas.length);
    row.under_replicated += facts.isr.length < facts.replicas.length ? 1 : 0;
    rows.set(topic, row);
  }
  return [...rows.values()];
}

/** @param {any} facts of kind `topic` */
function rowOf(facts) {
  const partitions = /** @type {any[]} */ (facts.partitions);
  return {
    name: facts.name,
    internal: facts.internal,
    partitions: partitions.length,
    replication_factor: Math.max(0, ...partitions.map(({ replicas }) => replicas.length)),
    under_replicated: partitions.filter(({ isr, replicas }) => isr.length < replicas.length).length,
    offline: partitions.filter(({ leader }) => leader === null).length,
  };
}

export const view = { path: "topics", title: "Topics", key: "0", component: Topics };
