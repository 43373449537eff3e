/** The view "Throttles": quotas of clients, of replication, and who is held back now. */

import { Empty, OnlyMinikafka } from "../parts/empty.js";
import { brief, bytes, duration, number } from "../parts/format.js";
import { html } from "../parts/html.js";
import { BrokerName } from "../parts/svg.js";
import { Twin } from "../parts/twin.js";
import { all } from "../reducer.js";
import { mutes } from "./why_findings.js";

/** @typedef {import("../reducer.js").State} State */
/**
 * @typedef {{key: string, broker: number, kind: string, who: string, limit: number|null,
 *   rate: number|null, share: number|null, unit: string, held: boolean, heldMs: number,
 *   more: [string, any][]}} ThrottleRow `share` of the limit that is used; above 1 it is exceeded
 */

const KNOWN = new Set(["kind", "user", "client_id", "ip", "limit", "rate", "unit", "throttle_ms", "muted", "throttled", "exceeded"]);

/**
 * @param {State} state
 * @returns {ThrottleRow[]} those that hold someone back first, then by the share of their limit
 */
export function throttleRows(state) {
  return all(state, "throttle").map(({ name, broker, facts }) => {
    const limit = typeof facts.limit === "number" ? facts.limit : null;
    const rate = typeof facts.rate === "number" ? facts.rate : null;
    return {
      key: `${broker} ${name}`,
      broker: Number(broker),
      kind: facts.kind ?? name,
      who: who(facts) || (facts.kind ? "" : name),
      limit,
      rate,
      share: limit && rate !== null ? rate / limit : null,
      unit: facts.unit ?? "",
      held: mutes(facts),
      heldMs: facts.throttle_ms ?? 0,
      more: Object.entries(facts).filter(([key]) => !KNOWN.has(key)),
    };
  }).sort((a, b) => Number(b.held) - Number(a.held) || (b.share ?? -1) - (a.share ?? -1));
}

/** @param {any} facts */
function who(facts) {
  const parts = [];
  if (facts.user !== undefined) parts.push(`user ${facts.user ?? "(default)"}`);
  if (facts.client_id !== undefined) parts.push(`client ${facts.client_id ?? "(default)"}`);
  if (facts.ip !== undefined) parts.push(`address ${facts.ip ?? "(default)"}`);
  return parts.join(", ");
}

/** @param {number|null} value @param {string} unit */
export function amount(value, unit) {
  if (value === null) return "–";
  if (unit === "B/s") return `${bytes(value)}/s`;
  if (unit === "%") return `${number(Math.round(value * 10) / 10)} %`;
  return `${brief(value)} ${unit}`.trim();
}

/** @param {{state: State}} props */
function Component({ state }) {
  const rows = throttleRows(state);
  if (!rows.length && !all(state, "broker").length) return html`<${OnlyMinikafka} state=${state} what="its throttles" />`;
  const lead = html`<p class="lead">A quota limits what a client uses of a broker, or what replication uses of the network. A client
    above its quota gets its response at once, with a throttle time; its connection is not read for that long.</p>`;
  if (!rows.length) {
    return html`<div class="inner">${lead}<${Empty} title="No quota is in effect.">
      Set one with <code>minikafka quotas set</code>, or throttle a reassignment with <code>--throttle</code>.<//></div>`;
  }
  const held = rows.filter((row) => row.held).length;
  return html`<div class="inner">${lead}
    <p class=${`notice ${held ? "warn" : "good"}`}>${held ? `${number(held)} of ${number(rows.length)} quotas hold someone back.` : "Nobody is held back at the moment."}</p>
    <${Throttles} rows=${rows} /></div>`;
}

/** @param {{rows: ThrottleRow[]}} props */
function Throttles({ rows }) {
  const right = /** @type {"right"} */ ("right");
  const columns = [
    { key: "broker", title: "On", render: (/** @type {ThrottleRow} */ row) => html`<${BrokerName} broker=${row.broker} />` },
    { key: "kind", title: "Quota of" },
    { key: "who", title: "For" },
    { key: "rate", title: "Used", render: (/** @type {ThrottleRow} */ row) => amount(row.rate, row.unit), align: right },
    { key: "limit", title: "Limit", render: (/** @type {ThrottleRow} */ row) => amount(row.limit, row.unit), align: right },
    { key: "held", title: "Holds back", render: (/** @type {ThrottleRow} */ row) => html`<${Held} row=${row} />` },
    { key: "more", title: "More", value: (/** @type {ThrottleRow} */ row) => moreText(row) },
  ];
  return html`<${Twin} title="Quotas and throttles" columns=${columns} rows=${rows} rowKey=${(/** @type {ThrottleRow} */ row) => row.key}
    about="The bar is the share of the limit that is used; it ends at the limit.">
    <ul class="bars throttles">${rows.map((row) => html`<li key=${row.key} aria-label=${`${row.kind} ${row.who}: ${amount(row.rate, row.unit)} of ${amount(row.limit, row.unit)}`}>
      <span class="bars-name"><${BrokerName} broker=${row.broker} label=${row.kind} /> <span class="muted">${row.who}</span></span>
      <span class="bars-track" aria-hidden="true"><span class=${`throttle-used ${row.held || (row.share ?? 0) > 1 ? "over" : ""}`}
        style=${{ width: `${Math.min(1, row.share ?? 0) * 100}%` }}></span></span>
      <span class="bars-text">${amount(row.rate, row.unit)} of ${amount(row.limit, row.unit)} <${Held} row=${row} /></span></li>`)}</ul>
  <//>`;
}

/** @param {{row: ThrottleRow}} props */
function Held({ row }) {
  if (!row.held) return html`<span class="pill quiet">no</span>`;
  return html`<span class="pill warn">${row.heldMs ? `for ${duration(row.heldMs)}` : "yes"}</span>`;
}

/** @param {ThrottleRow} row */
function moreText(row) {
  return row.more.map(([key, value]) => `${key.replaceAll("_", " ")}: ${Array.isArray(value) ? value.join(", ") : typeof value === "object" && value ? JSON.stringify(value) : value}`).join("; ");
}

export const view = { path: "throttles", title: "Throttles", key: "9", component: Component };
