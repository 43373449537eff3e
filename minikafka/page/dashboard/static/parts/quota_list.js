/** The quotas of clients, as any Kafka from 2.6 on tells them (DescribeClientQuotas). */

import { ActButton } from "./act.js";
import { brief, bytes, number } from "./format.js";
import { html } from "./html.js";
import { SearchForm, SecurityList } from "./security_list.js";

/** What each quota limits, and its unit. @type {Object<string, {kind: string, unit: string}>} */
export const QUOTAS = {
  producer_byte_rate: { kind: "Produce", unit: "B/s" },
  consumer_byte_rate: { kind: "Fetch", unit: "B/s" },
  request_percentage: { kind: "Time of the broker", unit: "%" },
  controller_mutation_rate: { kind: "Changes of topics", unit: "a second" },
  connection_creation_rate: { kind: "New connections", unit: "a second" },
  leader: { kind: "Replication from leaders", unit: "B/s" },
  follower: { kind: "Replication to followers", unit: "B/s" },
  log_dirs: { kind: "Moves between disks", unit: "B/s" },
};

/** @param {number|null} value @param {string} unit */
export function amount(value, unit) {
  if (value === null) return "–";
  if (unit === "B/s") return `${bytes(value)}/s`;
  if (unit === "%") return `${number(Math.round(value * 10) / 10)} %`;
  return `${brief(value)} ${unit}`.trim();
}

/** Whom a quota limits. @param {{user?: string|null, client_id?: string|null, ip?: string|null}} row */
export function who(row) {
  const parts = [];
  for (const [name, what] of [[row.user, "user"], [row.client_id, "client"], [row.ip, "address"]]) {
    if (name) parts.push(name === "<default>" ? `every other ${what}` : `${what} ${name}`);
  }
  return parts.join(", ") || "all clients";
}

/** Buttons for the quotas of clients; replication is throttled by a reassignment.
 * @param {{state: any, api: any, done?: () => void}} props */
export function QuotaActs({ state, api, done }) {
  return html`<div class="toolbar" role="group" aria-label="Acts on quotas">
    <${ActButton} act="quotas-set" label="Set a quota…" state=${state} api=${api} done=${done} />
    <${ActButton} act="quotas-remove" label="Remove quotas…" state=${state} api=${api} done=${done} />
  </div>`;
}

/** @param {{state: any, api: any, query: Record<string, string>, open: (more: any) => void, changed: number}} props */
export function QuotaList({ state, api, query, open, changed }) {
  const columns = [
    { key: "who", title: "for", render: who },
    { key: "key", title: "quota of", render: (/** @type {any} */ row) => QUOTAS[row.key]?.kind ?? row.key },
    { key: "limit", title: "limit", align: /** @type {const} */ ("right"),
      render: (/** @type {any} */ row) => amount(row.limit, QUOTAS[row.key]?.unit ?? "") },
  ];
  return html`<section class="card" aria-label="Quotas of clients"><h2>Quotas of clients</h2>
    <${SearchForm} label="Search quotas" fields=${[{ name: "search", label: "name contains" }]} query=${query} open=${open} />
    <${SecurityList} kind="quotas" label="quotas" query=${{ search: query.search, from: query.from }} columns=${columns}
      rowKey=${(/** @type {any} */ row) => `${row.user}|${row.client_id}|${row.ip}|${row.key}`} api=${api}
      live=${state.hello?.live !== false} changed=${changed} open=${open} none="No client has a quota." />
  </section>`;
}
