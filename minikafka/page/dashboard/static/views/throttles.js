/** The view "Throttles": quotas of clients, of replication, who is held back now, connections, and
 * what clients say of themselves. */

import { Empty, hasInside, OnlyMinikafka } from "../parts/empty.js";
import { count, duration, number } from "../parts/format.js";
import { html, useState } from "../parts/html.js";
import { amount, QuotaActs, QuotaList, QUOTAS, who } from "../parts/quota_list.js";
import { BrokerName } from "../parts/svg.js";
import { Table } from "../parts/table.js";
import { Twin } from "../parts/twin.js";
import { all } from "../reducer.js";

/** @typedef {import("../reducer.js").State} State */
/**
 * @typedef {{key: string, broker: number, kind: string, who: string, limit: number|null,
 *   rate: number|null, share: number|null, unit: string, held: boolean, heldMs: number}} ThrottleRow
 *   `share` of the limit that is used; above 1 it is exceeded
 */

const RIGHT = /** @type {"right"} */ ("right");

/**
 * Return the accounts of clients with a limit, and the throttles of replication.
 *
 * @param {State} state
 * @returns {ThrottleRow[]} those that hold someone back first, then by the share of their limit
 */
export function throttleRows(state) {
  const rows = all(state, "throttle").flatMap(({ name, broker, facts }) =>
    name === "replication"
      ? ofReplication(Number(broker), facts)
      : ofClients(Number(broker), facts),
  );
  return rows.sort((a, b) => Number(b.held) - Number(a.held) || (b.share ?? -1) - (a.share ?? -1));
}

/** @param {number} broker @param {any} facts @returns {ThrottleRow[]} */
function ofClients(broker, facts) {
  const used = new Set();
  const accounts = (facts.accounts ?? []).map((/** @type {any} */ row) => {
    used.add(`${row.key} ${row.limit}`);
    return throttleRow(
      broker,
      row.key,
      who(row),
      row.limit,
      row.used,
      row.throttle_ms > 0,
      row.throttle_ms,
    );
  });
  // A limit is listed by itself as long as no client has used it.
  const limits = (facts.limits ?? [])
    .filter((/** @type {any} */ row) => !used.has(`${row.key} ${row.limit}`))
    .map((/** @type {any} */ row) =>
      throttleRow(broker, row.key, who(row), row.limit, null, false, 0),
    );
  return [...accounts, ...limits];
}

/** @param {number} broker @param {any} facts @returns {ThrottleRow[]} */
function ofReplication(broker, facts) {
  return Object.entries(facts)
    .filter(([, row]) => row && row.limit !== null && row.limit !== undefined)
    .map(([key, row]) =>
      throttleRow(broker, key, "", row.limit, row.rate ?? null, Boolean(row.exceeded), 0),
    );
}

/**
 * @param {number} broker @param {string} key @param {string} whose @param {number|null} limit
 * @param {number|null} rate @param {boolean} held @param {number} heldMs
 * @returns {ThrottleRow}
 */
function throttleRow(broker, key, whose, limit, rate, held, heldMs) {
  const { kind, unit } = QUOTAS[key] ?? { kind: key.replaceAll("_", " "), unit: "" };
  const share = limit && rate !== null ? rate / limit : null;
  return {
    key: `${broker} ${key} ${whose}`,
    broker,
    kind,
    who: whose,
    limit,
    rate,
    share,
    unit,
    held,
    heldMs,
  };
}

/** @param {{state: State, api: any, params: Object<string, string>, go: any}} props */
function Component({ state, api, params, go }) {
  const rows = throttleRows(state);
  const throttles = all(state, "throttle");
  if (!throttles.length && !hasInside(state))
    return html`<${ByProtocol} state=${state} api=${api} params=${params} go=${go} />`;
  const muted = throttles.flatMap(({ broker, facts }) =>
    (facts.muted ?? []).map((/** @type {any} */ row) => ({ broker, ...row })),
  );
  return html`<div class="inner">
    <p class="lead">A quota limits what a client uses of a broker, or what replication uses of the network. A client above its
      quota gets its response at once, with a throttle time; its connection is not read for that long.</p>
    ${
      rows.length
        ? html`<${Throttles} rows=${rows} />`
        : html`<${Empty} title="No quota is in effect.">
      Set one with <code>minikafka quotas set</code>, or throttle a reassignment with <code>--throttle</code>.<//>`
    }
    <${QuotaActs} state=${state} api=${api} />
    ${rows.length > 0 && html`<${Muted} rows=${muted} now=${state.at} />`}
    <${Connections} state=${state} />
    <${ClientMetrics} state=${state} />
  </div>`;
}

/** What brokers without a debug listener tell: the limits, and not who reaches them.
 * @param {{state: State, api: any, params: Object<string, string>, go: any}} props */
function ByProtocol({ state, api, params, go }) {
  const [changed, setChanged] = useState(0);
  const nothing = html`<${OnlyMinikafka} state=${state} what="who is throttled now" />`;
  if (state.hello?.live === false) return nothing;
  return html`<div class="stack">
    <${QuotaActs} state=${state} api=${api} done=${() => setChanged(changed + 1)} />
    <${QuotaList} state=${state} api=${api} query=${params} changed=${changed}
      open=${(/** @type {any} */ more) => go("throttles", { ...params, ...more })} />
    ${nothing}
  </div>`;
}

/** @param {{rows: any[], now: number}} props */
function Muted({ rows, now }) {
  const columns = [
    {
      key: "broker",
      title: "On",
      render: (/** @type {any} */ row) => html`<${BrokerName} broker=${row.broker} />`,
    },
    { key: "client", title: "Address" },
    { key: "client_id", title: "Client" },
    { key: "user", title: "User" },
    {
      key: "until_ms",
      title: "For another",
      render: (/** @type {any} */ row) => duration(Math.max(0, row.until_ms - now)),
      align: RIGHT,
    },
  ];
  return html`<section class="card"><h2>Muted connections</h2>
    <${Table} caption="Connections that a broker does not read at the moment" columns=${columns} rows=${rows} pageSize=${10}
      none="Every connection is read." /></section>`;
}

/** @param {{state: State}} props */
function Connections({ state }) {
  const brokers = all(state, "connections");
  if (!brokers.length) return null;
  const rows = brokers.flatMap(({ broker, facts }) =>
    (facts.clients ?? []).map((/** @type {any} */ row) => ({ broker, ...row })),
  );
  const columns = [
    {
      key: "broker",
      title: "To",
      render: (/** @type {any} */ row) => html`<${BrokerName} broker=${row.broker} />`,
    },
    { key: "client_id", title: "Client" },
    { key: "name", title: "Software" },
    { key: "version", title: "Version" },
    { key: "connections", title: "Connections", align: RIGHT },
  ];
  const totals = brokers.map(
    ({
      broker,
      facts,
    }) => html`<span key=${broker}><${BrokerName} broker=${broker} />: <b>${number(facts.total)}</b> <span
    class="muted">(${Object.entries(facts.listeners ?? {})
      .map(([name, n]) => `${name} ${n}`)
      .join(", ")})</span></span>`,
  );
  return html`<section class="card"><h2>Connections</h2><p class="row">${totals}</p>
    <${Table} caption="Connections by client" columns=${columns} rows=${rows} pageSize=${10} initialSort=${["connections", true]}
      none="No client is connected." /></section>`;
}

/**
 * Return the metrics that clients have pushed to the brokers.
 *
 * @param {State} state
 * @returns {any[]} a row for each value, under the name of KIP-714 without its prefix
 */
export function clientMetricRows(state) {
  return all(state, "client_metrics").flatMap(({ name, broker, facts }) =>
    facts.values.map((/** @type {any} */ each) => {
      const labels = Object.entries(each.labels).map(([key, value]) => `${key} ${value}`);
      return {
        key: `${broker} ${name} ${each.name} ${labels}`,
        broker,
        client: facts.client_id ?? "–",
        software: `${facts.client_software_name} ${facts.client_software_version}`,
        metric: each.name.replace("org_apache_kafka_", "").replaceAll("_", " "),
        labels: labels.join(", "),
        value: each.value,
        pushed_ms: facts.pushed_ms,
      };
    }),
  );
}

/** @param {{state: State}} props */
function ClientMetrics({ state }) {
  const rows = clientMetricRows(state);
  if (!rows.length) return null;
  const columns = [
    {
      key: "broker",
      title: "To",
      render: (/** @type {any} */ row) => html`<${BrokerName} broker=${row.broker} />`,
    },
    { key: "client", title: "Client" },
    { key: "software", title: "Software" },
    { key: "metric", title: "Metric" },
    { key: "labels", title: "Of" },
    {
      key: "value",
      title: "Value",
      render: (/** @type {any} */ row) => number(Math.round(row.value * 1000) / 1000),
      align: RIGHT,
    },
    {
      key: "pushed_ms",
      title: "Pushed",
      render: (/** @type {any} */ row) => `${duration(Math.max(0, state.at - row.pushed_ms))} ago`,
      align: RIGHT,
    },
  ];
  return html`<section class="card"><h2>Client metrics</h2>
    <p class="muted">What clients measure themselves, as <code>minikafka client-metrics</code> asks them.</p>
    <${Table} caption="Metrics that clients have pushed" columns=${columns} rows=${rows} pageSize=${10}
      rowKey=${(/** @type {any} */ row) => row.key} initialSort=${["client", false]} /></section>`;
}

/** @param {{rows: ThrottleRow[]}} props */
function Throttles({ rows }) {
  const columns = [
    {
      key: "broker",
      title: "On",
      render: (/** @type {ThrottleRow} */ row) => html`<${BrokerName} broker=${row.broker} />`,
    },
    { key: "kind", title: "Quota of" },
    { key: "who", title: "For" },
    {
      key: "rate",
      title: "Used",
      render: (/** @type {ThrottleRow} */ row) => amount(row.rate, row.unit),
      align: RIGHT,
    },
    {
      key: "limit",
      title: "Limit",
      render: (/** @type {ThrottleRow} */ row) => amount(row.limit, row.unit),
      align: RIGHT,
    },
    {
      key: "held",
      title: "Holds back",
      render: (/** @type {ThrottleRow} */ row) => html`<${Held} row=${row} />`,
    },
  ];
  const held = rows.filter((row) => row.held).length;
  const said = held
    ? `${count(held, "quota holds", "quotas hold")} someone back. `
    : "Nobody is held back at the moment. ";
  return html`<${Twin} title="Quotas and throttles" columns=${columns} rows=${rows} rowKey=${(/** @type {ThrottleRow} */ row) => row.key}
    about=${`${said}The bar is the share of the limit that is used; it ends at the limit.`}>
    <ul class="bars throttles">${rows.map(
      (
        row,
      ) => html`<li key=${row.key} aria-label=${`${row.kind} ${row.who}: ${amount(row.rate, row.unit)} of ${amount(row.limit, row.unit)}`}>
      <span class="bars-name"><${BrokerName} broker=${row.broker} label=${row.kind} /> <span class="muted">${row.who}</span></span>
      <span class="bars-track" aria-hidden="true"><span class=${`throttle-used ${row.held || (row.share ?? 0) > 1 ? "over" : ""}`}
        style=${{ width: `${Math.min(1, row.share ?? 0) * 100}%` }}></span></span>
      <span class="bars-text">${amount(row.rate, row.unit)} of ${amount(row.limit, row.unit)} <${Held} row=${row} /></span></li>`,
    )}</ul>
  <//>`;
}

/** @param {{row: ThrottleRow}} props */
function Held({ row }) {
  if (!row.held) return html`<span class="pill quiet">no</span>`;
  return html`<span class="pill warn">${row.heldMs ? `for ${duration(row.heldMs)}` : "yes"}</span>`;
}

export const view = { path: "throttles", title: "Throttles", key: "9", component: Component };
