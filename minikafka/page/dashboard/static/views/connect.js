/**
 * The view "Connect": connectors of Kafka Connect, and one connector with its tasks.
 * @module
 */
import { hashOf } from "../route.js";
import { ConnectorDetail, State, Topics } from "../parts/connector_detail.js";
import { Empty } from "../parts/empty.js";
import { html } from "../parts/html.js";
import { NameList } from "../parts/name_list.js";
import { usePolled } from "../parts/polled.js";

const POLL_MS = 10_000;

/** @param {any} props */
function Connect({ state, api, params }) {
  const live = state.hello?.live !== false;
  const about = usePolled({ api, path: "connect", live: live && Boolean(state.hello), everyMs: POLL_MS });
  if (!live) return html`<${Empty} title="A recording has no Kafka Connect.">The page reads it from its workers.<//>`;
  if (about.problem && !about.facts) return html`<p class="notice bad" role="alert">${about.problem}</p>`;
  if (!about.facts) return html`<${Empty}>Reading Kafka Connect…<//>`;
  if (about.facts.address === null) {
    return html`<${Empty} title="The page was started without Kafka Connect.">
      <code>minikafka ui --connect URL ...</code> names one of its workers.<//>`;
  }
  if (params.name) return html`<${ConnectorDetail} key=${params.name} name=${params.name} state=${state} api=${api} />`;
  return html`<${Connectors} api=${api} params=${params} about=${about.facts} />`;
}

/** @param {any} props */
function Connectors({ api, params, about }) {
  const columns = [
    { key: "type", title: "kind" },
    { key: "state", title: "state", render: (/** @type {any} */ row) => html`<${State} state=${row.state} />` },
    { key: "worker", title: "worker" },
    { key: "tasks", title: "tasks", sortable: false, render: (/** @type {any} */ row) => html`${row.tasks}${
      row.failed > 0 && html` <span class="pill bad">${row.failed} failed</span>`}` },
    { key: "topics", title: "topics", sortable: false, render: (/** @type {any} */ row) => html`<${Topics} topics=${row.topics} />` },
  ];
  return html`<div>
    <p class="muted">Connectors of <code>${about.address}</code>, version ${about.version}</p>
    <${NameList} kind="connectors" path="connect" params=${params} label="connectors" nameOf=${(/** @type {any} */ row) => row.connector}
      columns=${columns} href=${(/** @type {string} */ name) => hashOf("connect", { name })} api=${api} live=${true} local=${() => []}
      isSick=${(/** @type {any} */ row) => row.state === "FAILED" || row.failed > 0} />
  </div>`;
}

export const view = { path: "connect", title: "Connect", key: "c", component: Connect };
