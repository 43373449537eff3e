/** The view "Why": each odd state, and the chain of events that led there. */

import { Empty } from "../parts/empty.js";
import { ago, count, number, time } from "../parts/format.js";
import { html, useMemo, useState } from "../parts/html.js";
import { BrokerName } from "../parts/svg.js";
import { Twin } from "../parts/twin.js";
import { hashOf } from "../route.js";
import { findings } from "./why_findings.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {import("./why_findings.js").Finding} Finding */

/** @type {Object<string, {label: string, sign: string, pill: string}>} */
const SEVERITY = {
  critical: { label: "critical", sign: "◆", pill: "bad" },
  warning: { label: "warning", sign: "▲", pill: "warn" },
  note: { label: "note", sign: "●", pill: "quiet" },
};
const MAX_PARTITIONS = 12;

/** @param {{state: State}} props */
function Component({ state }) {
  /** @type {Finding[]} */
  const found = useMemo(() => findings(state), [state]);
  const lead = html`<p class="lead">What is odd in the cluster now, and the events of the brokers' logs that led there, the newest
    cause last.</p>`;
  if (!state.at)
    return html`<div class="inner">${lead}<${Empty}>The brokers have not reported yet.<//></div>`;
  if (!found.length) {
    return html`<div class="inner">${lead}<${Empty} title="Nothing is odd.">All partitions have a leader and all their replicas in
      sync, one broker is the controller, and no transaction or group is stuck.<//></div>`;
  }
  const columns = [
    {
      key: "severity",
      title: "Severity",
      value: (/** @type {Finding} */ row) => Object.keys(SEVERITY).indexOf(row.severity),
      render: (/** @type {Finding} */ row) => html`<${Pill} severity=${row.severity} />`,
    },
    {
      key: "title",
      title: "What",
      render: (/** @type {Finding} */ row) => `${row.title} ${row.detail}`,
    },
    {
      key: "chain",
      title: "Newest cause",
      value: (/** @type {Finding} */ row) => row.chain.at(-1)?.says ?? "",
    },
    {
      key: "view",
      title: "Shown by",
      value: (/** @type {Finding} */ row) => row.view.label,
      render: (/** @type {Finding} */ row) =>
        html`<a href=${hashOf(row.view.path, row.view.params)}>${row.view.label}</a>`,
    },
  ];
  return html`<div class="inner">${lead}
    <${Twin} title=${count(found.length, "finding")} columns=${columns} rows=${found} rowKey=${(/** @type {Finding} */ row) => row.id}>
      <ol class="findings">${found.map((finding) => html`<${Card} key=${finding.id} finding=${finding} now=${state.at} />`)}</ol>
    <//></div>`;
}

/** @param {{severity: string}} props */
function Pill({ severity }) {
  const { label, sign, pill } = SEVERITY[severity];
  return html`<span class=${`tag ${pill}`}><span aria-hidden="true">${sign}</span> ${label}</span>`;
}

/** @param {{finding: Finding, now: number}} props */
function Card({ finding, now }) {
  const { title, detail, severity, view: shownBy, chain, partitions = [] } = finding;
  const unnamed = Math.max(0, (finding.count ?? 0) - partitions.length);
  return html`<li class=${`finding ${severity}`}>
    <p class="finding-head"><${Pill} severity=${severity} /> <b class="finding-title">${title}</b>
      <a href=${hashOf(shownBy.path, shownBy.params)}>${shownBy.label} →</a></p>
    ${detail && html`<p>${detail}</p>`}
    ${partitions.length > 0 && html`<${Partitions} names=${partitions} unnamed=${unnamed} />`}
    ${chain.length > 0 ? html`<${Chain} links=${chain} now=${now} />` : html`<p class="muted">No event of the logs that this page has seen led there.</p>`}
  </li>`;
}

/** @param {{names: string[], unnamed: number}} props */
function Partitions({ names, unnamed }) {
  const [all, setAll] = useState(false);
  const shown = all ? names : names.slice(0, MAX_PARTITIONS);
  const hidden = names.length - MAX_PARTITIONS;
  return html`<p class="finding-partitions">${shown.map((name) => html`<a key=${name} class="tag" href=${hashOf("lanes", { name })}>${name}</a> `)}
    ${
      hidden > 0 &&
      html`<button class="small" aria-expanded=${all} onClick=${() => setAll(!all)}>${
        all ? "fewer" : `${number(hidden + unnamed)} more`
      }</button>`
    }
    ${
      unnamed > 0 &&
      (all || hidden <= 0) &&
      html`<a href="#/topics?sick=1">and ${number(unnamed)} more: sick topics</a>`
    }</p>`;
}

/** @param {{links: import("./event_chains.js").Link[], now: number}} props */
function Chain({ links, now }) {
  return html`<ol class="chain" aria-label="Events that led there, oldest first">${links.map(
    (link, i) => html`<li
    key=${`${link.name} ${link.broker} ${link.at}`} class=${`${link.level} ${i === links.length - 1 ? "newest" : ""}`}>
    <span class="chain-time mono" title=${ago(link.at, now)}>${time(link.at)}</span>
    <span class="chain-broker"><${BrokerName} broker=${link.broker} /></span>
    <span class="chain-says">${link.says}${link.count > 1 && html` <span class="muted">(${times(link)})</span>`}
      <a class="chain-name mono muted" href=${hashOf("events", { text: link.name })}>${link.name}</a></span></li>`,
  )}</ol>`;
}

/** @param {import("./event_chains.js").Link} link */
function times(link) {
  return link.partitions.length > 1
    ? `and the like for ${count(link.partitions.length - 1, "more partition")}`
    : `${number(link.count)} times`;
}

export const view = { path: "why", title: "Why", key: "w", component: Component };
