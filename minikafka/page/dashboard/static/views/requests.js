/** The view "Requests": the phases of each API's requests, the slowest ones, and the last ones. */

import { Empty, OnlyMinikafka } from "../parts/empty.js";
import { bytes, count, duration, number, time } from "../parts/format.js";
import { html, useState } from "../parts/html.js";
import { Table } from "../parts/table.js";
import { Twin } from "../parts/twin.js";
import { all, one } from "../reducer.js";
import { BrokerChooser, Choice } from "./inner_parts.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {{key: string, title: string, letter: string, about: string}} Phase */
/**
 * @typedef {{phase: Phase, us: number, share: number}} Part a phase of a bar; `share` of 0 to 1 of the bar
 */

/** The phases of a request, in their order. @type {Phase[]} */
export const PHASES = [
  {
    key: "queue",
    title: "queue",
    letter: "Q",
    about: "from the last byte of the request to the start of its handler",
  },
  { key: "local", title: "local", letter: "L", about: "in the handler" },
  {
    key: "remote",
    title: "remote",
    letter: "R",
    about: "parked in a purgatory, until others have acted",
  },
  { key: "throttle", title: "throttle", letter: "T", about: "muted by a quota" },
  {
    key: "response_queue",
    title: "wait",
    letter: "W",
    about: "until the responses of earlier requests had left",
  },
  { key: "send", title: "send", letter: "S", about: "until the response had left" },
];

const MEASURES = [
  { value: "mean_us", label: "mean" },
  { value: "p50_us", label: "p50" },
  { value: "p99_us", label: "p99" },
];
const SCALES = [
  { value: "share", label: "shares" },
  { value: "time", label: "to scale" },
];

/**
 * Return the phases of an API as parts of a bar, without those that took no time.
 *
 * @param {any} phases facts of kind `request`: by phase, {mean_us, p50_us, p99_us, max_us}
 * @param {string} measure
 * @returns {Part[]}
 */
export function partsOf(phases, measure) {
  return shares(
    PHASES.map((phase) => ({ phase, us: Number(phases?.[phase.key]?.[measure] ?? 0) })),
  );
}

/**
 * Return the phases of one request as parts of a bar.
 *
 * @param {any} row with `queue_us`, `local_us`, `remote_us`, `wait_us`, `send_us`
 * @returns {Part[]}
 */
export function partsOfRequest(row) {
  const names = /** @type {Object<string, string>} */ ({ response_queue: "wait_us" });
  return shares(
    PHASES.map((phase) => ({ phase, us: Number(row[names[phase.key] ?? `${phase.key}_us`] ?? 0) })),
  );
}

/** @param {{phase: Phase, us: number}[]} parts @returns {Part[]} */
function shares(parts) {
  const sum = parts.reduce((total, { us }) => total + us, 0);
  return parts.filter(({ us }) => us > 0).map((part) => ({ ...part, share: part.us / sum }));
}

/** @param {{us: number}[]} parts */
export function totalOf(parts) {
  return parts.reduce((sum, { us }) => sum + us, 0);
}

/** @param {{state: State, go: any, params: Object<string, string>}} props */
function Component({ state, go, params }) {
  const [measure, setMeasure] = useState("mean_us");
  const [scale, setScale] = useState("share");
  const rows = all(state, "request");
  const brokers = [
    ...new Set([...rows, ...all(state, "requests")].map(({ broker }) => Number(broker))),
  ].sort((a, b) => a - b);
  if (!brokers.length)
    return html`<${OnlyMinikafka} state=${state} what="the phases of its requests" />`;
  const broker = brokers.includes(Number(params.broker)) ? Number(params.broker) : brokers[0];
  const watched = one(state, broker, "requests") ?? {};
  const apis = rows
    .filter((row) => row.broker === broker)
    .map(({ name, facts }) => ({ name, ...facts }));
  return html`<div class="inner">
    <p class="lead">A broker divides the time of each request into phases, as Kafka does. What takes long in the remote phase
      waits for others (a follower, records, members); what takes long in the queue or locally, the broker itself is busy.</p>
    <${BrokerChooser} brokers=${brokers} chosen=${broker} choose=${(/** @type {number} */ id) => go("requests", { broker: id })} />
    <${Apis} apis=${apis} measure=${measure} scale=${scale} broker=${broker}
      tools=${html`<${Choice} label="Measure" options=${MEASURES} chosen=${measure} choose=${setMeasure} />
        <${Choice} label="Scale of the bars" options=${SCALES} chosen=${scale} choose=${setScale} />`} />
    <${Requests} title="Slowest now" rows=${watched.slowest} about="The slowest requests of each API within the last minute. Each bar is the whole time of a request."
      none="No request has been served while this page was open." />
    <${Requests} title="Last requests" rows=${watched.last} about="The newest is first. A broker keeps them while a page looks at it."
      none="No request has been served while this page was open." />
  </div>`;
}

/** @param {{apis: any[], measure: string, scale: string, broker: number, tools: any}} props */
function Apis({ apis, measure, scale, broker, tools }) {
  if (!apis.length) return html`<${Empty}>Broker ${broker} has served no request yet.<//>`;
  const rows = apis
    .map((row) => ({ ...row, parts: partsOf(row.phases, measure), failed: sum(row.errors) }))
    .sort((a, b) => b.count - a.count);
  const most = Math.max(1, ...rows.map(({ parts }) => totalOf(parts)));
  const time = (
    /** @type {string} */ phase,
    /** @type {string} */ what,
    /** @type {string} */ title,
  ) => ({
    key: `${phase} ${what}`,
    title,
    align: /** @type {"right"} */ ("right"),
    value: (/** @type {any} */ row) => timeOf(row, phase, what),
    render: (/** @type {any} */ row) => micros(timeOf(row, phase, what)),
  });
  const columns = [
    { key: "name", title: "API" },
    { key: "count", title: "Requests", align: /** @type {"right"} */ ("right") },
    { key: "failed", title: "Errors", align: /** @type {"right"} */ ("right") },
    ...PHASES.map((phase) => time(phase.key, measure, `${phase.title} (${label(measure)})`)),
    time("total", "p50_us", "Total p50"),
    time("total", "p99_us", "Total p99"),
    time("total", "max_us", "Longest"),
    { key: "errors", title: "By error", value: (/** @type {any} */ row) => errorsText(row.errors) },
  ];
  return html`<${Twin} title=${`Phases by API on broker ${broker}`} tools=${tools} columns=${columns} rows=${rows}
    rowKey=${(/** @type {any} */ row) => row.name}
    about=${scale === "share" ? "Each bar is the whole time of a request, divided into its phases. The figures are of the last minute, the mean is of all time." : "The bars are to scale: the longest is that of the slowest API."}>
    <${PhaseKey} />
    <ul class="phase-rows">${rows.map(
      (row) => html`<li key=${row.name}>
      <span class="phase-api"><b>${row.name}</b> <span class="muted">${number(row.count)}</span>
        ${row.failed > 0 && html` <span class="pill bad" title=${errorsText(row.errors)}>${count(row.failed, "error")}</span>`}</span>
      <${PhaseBar} parts=${row.parts} width=${scale === "share" ? 1 : totalOf(row.parts) / most} label=${`${row.name}, ${label(measure)}`} />
      <span class="phase-times"><span class="muted">p50</span> ${micros(timeOf(row, "total", "p50_us"))} <span class="muted">p99</span> ${micros(timeOf(row, "total", "p99_us"))}</span>
    </li>`,
    )}</ul>
  <//>`;
}

/**
 * Return the time of a phase, or null. Percentiles are of the last minute: where no request came in
 * it, all of them are 0.
 * @param {any} row @param {string} phase @param {string} what
 * @returns {number|null}
 */
export function timeOf(row, phase, what) {
  return row.phases?.total?.[what] ? row.phases[phase]?.[what] ?? null : null;
}

/** @param {string} measure */
function label(measure) {
  return measure.replace("_us", "");
}

/** @param {Object<string, number>|undefined} errors */
function sum(errors) {
  return Object.values(errors || {}).reduce((total, n) => total + n, 0);
}

/** @param {Object<string, number>|undefined} errors */
function errorsText(errors) {
  return Object.entries(errors || {})
    .map(([name, n]) => `${name}: ${n}`)
    .join(", ");
}

/** @param {number|null} us */
export function micros(us) {
  return us === null || us === undefined ? "–" : us === 0 ? "0" : duration(us / 1000);
}

function PhaseKey() {
  return html`<ul class="phase-key">${PHASES.map(
    ({ key, title, letter, about }) => html`<li key=${key}>
    <span class=${`phase ${key}`} aria-hidden="true">${letter}</span> <b>${title}</b> <span class="muted">${about}</span></li>`,
  )}</ul>`;
}

/** @param {{parts: Part[], width: number, label: string}} props `width` of 0 to 1 of the place */
export function PhaseBar({ parts, width, label: name }) {
  const text = parts.map(({ phase, us }) => `${phase.title} ${micros(us)}`).join(", ") || "no time";
  return html`<span class="phase-bar" role="img" aria-label=${`${name}: ${text}`} title=${text}>
    <span class="phase-bar-in" style=${{ width: `${Math.max(width * 100, 0.5)}%` }}>${parts.map(
      ({ phase, share }) => html`<span
      key=${phase.key} class=${`phase ${phase.key}`} style=${{ width: `${share * 100}%` }}>${share * width > 0.06 ? phase.letter : ""}</span>`,
    )}</span></span>`;
}

/** @param {{title: string, rows: any[]|undefined, about: string, none: string}} props */
function Requests({ title, rows, about, none }) {
  if (!rows) return null;
  const right = /** @type {"right"} */ ("right");
  const columns = [
    { key: "time_ms", title: "Time", render: (/** @type {any} */ row) => time(row.time_ms) },
    {
      key: "api",
      title: "API",
      render: (/** @type {any} */ row) =>
        html`<span class="nowrap">${row.api} <span class="muted">v${row.version}</span></span>`,
    },
    {
      key: "client_id",
      title: "Client",
      render: (/** @type {any} */ row) =>
        html`${row.client_id || "–"} <span class="muted">${row.client}</span>`,
    },
    {
      key: "total_us",
      title: "Total",
      render: (/** @type {any} */ row) => micros(row.total_us),
      align: right,
    },
    {
      key: "phases",
      title: "Phases",
      sortable: false,
      render: (/** @type {any} */ row) =>
        html`<${PhaseBar} parts=${partsOfRequest(row)} width=${1} label=${row.api} />`,
    },
    {
      key: "size_bytes",
      title: "Request",
      render: (/** @type {any} */ row) => bytes(row.size_bytes),
      align: right,
    },
    { key: "correlation_id", title: "Correlation id", align: right },
  ];
  return html`<section class="card"><h2>${title}</h2><p class="muted">${about}</p>
    <${Table} caption=${title} columns=${columns} rows=${rows} pageSize=${10} none=${none} /></section>`;
}

export const view = { path: "requests", title: "Requests", key: "7", component: Component };
