/**
 * One connector of Kafka Connect: its state, its tasks with the traces of those that have failed,
 * its settings, and what can be done to it.
 * @module
 */
import { hashOf } from "../route.js";
import { ActButton } from "./act.js";
import { Empty } from "./empty.js";
import { count } from "./format.js";
import { html, useState } from "./html.js";
import { usePolled } from "./polled.js";
import { Table } from "./table.js";

const POLL_MS = 5000;
const MOST_TOPICS = 20;
/** @type {Record<string, string>} */
const TONES = { RUNNING: "good", FAILED: "bad", RESTARTING: "warn", UNASSIGNED: "warn" };
const WHOLE = { include_tasks: true };

/** The state of a connector or a task. @param {{state: string}} props */
export function State({ state }) {
  return html`<span class=${`pill ${TONES[state] ?? "quiet"}`}>${state.toLowerCase()}</span>`;
}

/** @param {{topics: string[]}} props */
export function Topics({ topics }) {
  if (topics.length === 0) return html`<span class="muted">unknown</span>`;
  const more = topics.length - MOST_TOPICS;
  return html`${topics.slice(0, MOST_TOPICS).map((topic) => html`<a href=${hashOf("topics", { name: topic })}>${topic}</a> `)}${
    more > 0 && html`<span class="muted">and ${more} more</span>`}`;
}

/** @param {any} props */
export function ConnectorDetail({ name, state, api }) {
  const [changes, setChanges] = useState(0);
  const path = `connectors/${encodeURIComponent(name)}`;
  const { facts, problem } = usePolled({ api, path, live: Boolean(state.hello), everyMs: POLL_MS, changed: changes });
  const alarm = problem && html`<p class="notice bad" role="alert">${problem}</p>`;
  if (!facts) return html`<${Back} />${alarm || html`<${Empty}>Reading the connector ${name}…<//>`}`;
  const shared = { state, api, fixed: ["connector", "task"], done: () => setChanges((/** @type {number} */ n) => n + 1) };
  const args = { connector: name };
  return html`<div class="detail">
    <${Back} />
    <header class="detail-head">
      <h2>${name}</h2>
      <${State} state=${facts.state} />
      <span>${facts.type} on <code>${facts.worker || "no worker"}</code></span>
      <span>${"topics "}<${Topics} topics=${facts.topics} /></span>
    </header>
    ${alarm}
    <div class="toolbar" role="group" aria-label="Acts on the connector">
      <${ActButton} act="connect-restart" label="Restart what failed…" args=${{ ...args, ...WHOLE, only_failed: true }} ...${shared} />
      <${ActButton} act="connect-restart" label="Restart…" args=${{ ...args, ...WHOLE }} ...${shared} />
      <${ActButton} act="connect-pause" label="Pause…" args=${args} ...${shared} />
      <${ActButton} act="connect-resume" label="Resume…" args=${args} ...${shared} />
      <${ActButton} act="connect-stop" label="Stop…" args=${args} ...${shared} />
    </div>
    ${facts.trace && html`<section class="card" aria-label="Why the connector failed"><h3>Why it failed</h3>
      <${Trace} label="Trace of the connector" text=${facts.trace} /></section>`}
    <${Tasks} name=${name} parts=${facts.parts} shared=${shared} />
    <${Settings} name=${name} settings=${facts.settings} />
  </div>`;
}

function Back() {
  return html`<p class="back"><a href="#/connect">‹ All connectors</a></p>`;
}

/** @param {{label: string, text: string}} props */
function Trace({ label, text }) {
  return html`<pre class="output" tabindex="0" aria-label=${label}>${text}</pre>`;
}

/** @param {any} props */
function Tasks({ name, parts, shared }) {
  const right = /** @type {const} */ ("right");
  const columns = [
    { key: "task", title: "task", align: right },
    { key: "state", title: "state", render: (/** @type {any} */ row) => html`<${State} state=${row.state} />` },
    { key: "worker", title: "worker" },
    { key: "restart", title: "", sortable: false, render: (/** @type {any} */ row) => html`<${ActButton} act="connect-restart-task"
      label=${`Restart task ${row.task}…`} args=${{ connector: name, task: row.task }} ...${shared} />` },
  ];
  return html`<section class="card" aria-label="Tasks">
    <h3>${count(parts.length, "task")}</h3>
    <${Table} caption=${`Tasks of ${name}`} columns=${columns} rows=${parts} rowKey=${(/** @type {any} */ row) => row.task}
      none="It has no tasks: it is stopped, or has nothing to do." />
    ${parts.filter((/** @type {any} */ { trace }) => trace).map((/** @type {any} */ { task, trace }) => html`<h4>Why task ${task} failed</h4>
      <${Trace} label=${`Trace of task ${task}`} text=${trace} />`)}
  </section>`;
}

/** @param {any} props */
function Settings({ name, settings }) {
  const columns = [
    { key: "name", title: "setting", render: (/** @type {any} */ row) => html`<code>${row.name}</code>` },
    { key: "value", title: "value", sortable: false, render: (/** @type {any} */ row) => html`<code>${row.value}</code>` },
  ];
  return html`<section class="card" aria-label="Settings">
    <h3>${count(settings.length, "setting")}</h3>
    <${Table} caption=${`Settings of ${name}`} columns=${columns} rows=${settings} rowKey=${(/** @type {any} */ row) => row.name} />
  </section>`;
}
