/**
 * What belongs to a topic beside its partitions: sizes, groups that read it, and ACLs.
 * @module
 */
import { one } from "../reducer.js";
import { hashOf } from "../route.js";
import { lagTime, number } from "./format.js";
import { html } from "./html.js";
import { Table } from "./table.js";

/**
 * @typedef {{size: number|null, onDisk: number|null, segments: number|null}} Sizes null where not known
 */

/**
 * Return the sizes of a topic, and of each partition: of its largest replica, and of all replicas.
 * Only a minikafka leader whose inside is followed reports its number of segments.
 * @param {import("../reducer.js").State} state @param {string} name @param {any[]} partitions
 * @param {any} use of `GET /api/topic-use`
 * @returns {Sizes & {of: (partition: number) => Sizes}}
 */
export function sizesOf(state, name, partitions, use) {
  const rows = new Map(partitions.map(({ partition, leader }) => {
    const replicas = /** @type {number[]} */ (Object.values(use?.sizes?.[String(partition)] ?? {}));
    const known = replicas.length > 0;
    const segments = leader === null ? undefined : one(state, leader, "partition", `${name}-${partition}`)?.segments;
    return [partition, {
      size: known ? Math.max(...replicas) : null,
      onDisk: known ? sum(replicas) : null,
      segments: segments ?? null,
    }];
  }));
  const total = (/** @type {(row: Sizes) => number|null} */ of) => {
    const values = [...rows.values()].map(of);
    return values.length === 0 || values.includes(null) ? null : sum(/** @type {number[]} */ (values));
  };
  const none = { size: null, onDisk: null, segments: null };
  return {
    size: total(({ size }) => size),
    onDisk: total(({ onDisk }) => onDisk),
    segments: total(({ segments }) => segments),
    of: (partition) => rows.get(partition) ?? none,
  };
}

/** @param {number[]} values */
function sum(values) {
  return values.reduce((a, b) => a + b, 0);
}

/** Groups that have committed offsets of the topic. @param {{name: string, use: any}} props */
export function TopicGroups({ name, use }) {
  const right = /** @type {const} */ ("right");
  const columns = [
    { key: "group", title: "group", render: (/** @type {any} */ row) => html`<a href=${hashOf("groups", { name: row.group })}>${row.group}</a>` },
    { key: "partitions", title: "partitions", align: right },
    { key: "lag", title: "lag", align: right },
    { key: "lag_ms", title: "lag in time", align: right, render: (/** @type {any} */ row) => lagTime(row) },
  ];
  return html`<section class="card" aria-label="Groups">
    <h3>${use?.groups ? `${number(use.groups.length)} ${use.groups.length === 1 ? "group reads" : "groups read"} it` : "Groups"}</h3>
    <${Table} caption=${`Groups with committed offsets of ${name}`} columns=${columns} rows=${use?.groups ?? []}
      rowKey=${(/** @type {any} */ row) => row.group}
      none=${use?.groups ? "No group has committed an offset of this topic." : "Reading…"} />
  </section>`;
}

/** Rules that name the topic, a prefix of it, or all topics. @param {{name: string, use: any}} props */
export function TopicAcls({ name, use }) {
  const columns = [
    { key: "permission", title: "permission", render: (/** @type {any} */ row) =>
      html`<span class=${`pill ${row.permission === "ALLOW" ? "good" : "bad"}`}>${row.permission.toLowerCase()}</span>` },
    { key: "principal", title: "principal", render: (/** @type {any} */ row) => html`<code>${row.principal}</code>` },
    { key: "operation", title: "operation", render: (/** @type {any} */ row) => row.operation.toLowerCase().replaceAll("_", " ") },
    { key: "host", title: "from host" },
    { key: "resource", title: "by the rule for", render: (/** @type {any} */ row) =>
      (row.resource === "*" ? "all topics" : row.pattern_type === "PREFIXED" ? `topics that begin with ${row.resource}` : row.resource) },
  ];
  return html`<section class="card" aria-label="ACLs">
    <h3>ACLs</h3>
    ${use?.no_acls
      ? html`<p class="muted">${use.no_acls}</p>`
      : html`<${Table} caption=${`ACLs that concern ${name}`} columns=${columns} rows=${use?.acls ?? []}
          none=${use ? "No rule names this topic." : "Reading…"} />
        <p><a href=${hashOf("access", { tab: "why", resource: "topic", name })}>May a principal use it?</a></p>`}
  </section>`;
}
