/** The view "Cluster": a card a broker with its crown, and who leads which partition. */

import { all, one, samples } from "../reducer.js";
import { hashOf } from "../route.js";
import { ActButton } from "../parts/act.js";
import { Chart, DASHES } from "../parts/chart.js";
import { Empty } from "../parts/empty.js";
import { brief, bytes, count, duration, number, rates, time } from "../parts/format.js";
import { HistoryChart } from "../parts/history_chart.js";
import { html } from "../parts/html.js";
import {
  beyondOf, brokers, controllerEpoch, controllerOf, counted, oddStates, partitions,
} from "../parts/partitions.js";
import { BrokerIcon, BrokerMark, brokerColor, Node, Sparkline, useWidth } from "../parts/svg.js";
import { Twin } from "../parts/twin.js";
import { EventLine, folded } from "./events.js";
import { findings } from "./why_findings.js";

const MAX_TOPICS = 30; // rows of the map of leaders
const MAX_FINDINGS = 3; // sentences below the totals
const MAX_CELLS = 60; // partitions of a row
/** @type {Object<string, [string, string]>} state: look, words */
const STATES = {
  running: ["good", "running"],
  starting: ["warn", "starting"],
  stopping: ["warn", "stopping"],
  silent: ["warn", "silent"],
  gone: ["bad", "gone"],
  unknown: ["quiet", "unknown"],
};
const THERE = ["running", "starting", "stopping", "unknown"];
const ALL = Object.keys(STATES);
/** A broker that is paused, isolated or killed is silent, and gone when its session has expired.
 * @type {{verb: string, label: string, look: string, when: string[], of?: "paused"|"isolated"|"neither"}[]} */
const SUPERVISED = [
  { verb: "stop", label: "kill -15", look: "small", when: [...THERE, "silent"] },
  { verb: "kill", label: "kill -9", look: "small danger", when: [...THERE, "silent"] },
  { verb: "pause", label: "pause", look: "small", when: THERE },
  { verb: "isolate", label: "isolate", look: "small", when: THERE },
  { verb: "start", label: "start", look: "small", when: ["silent", "gone"], of: "neither" },
  { verb: "resume", label: "resume", look: "small", when: ALL, of: "paused" },
  { verb: "rejoin", label: "rejoin", look: "small", when: ALL, of: "isolated" },
];

/** @typedef {import("../parts/partitions.js").BrokerView} BrokerView */
/** @typedef {import("../parts/partitions.js").PartitionView} PartitionView */

/** @param {{state: import("../reducer.js").State, api: any, go: any}} props */
function Cluster({ state, api, go }) {
  const found = brokers(state);
  if (!state.hello || (state.hello.live && !hasReported(state))) return html`<${Empty}>Reading the cluster…<//>`;
  const live = state.hello.live !== false;
  const inside = found.some((broker) => broker.inside);
  return html`<div class="stack">
    <${Totals} state=${state} />
    <div class="cards brokers" role="list" aria-label="Brokers">${found.map((broker) =>
      html`<${BrokerCard} key=${broker.id} broker=${broker} state=${state} api=${api} />`)}</div>
    <${LeaderMap} state=${state} go=${go} />
    <${Rates} state=${state} brokers=${found} />
    <${HistoryChart} title="The last day" of="cluster" api=${api} live=${live}
      measures=${["records", "bytes_in", "bytes_out", "requests", "size"]} />
    ${inside && html`<${HistoryChart} title="The last day, by broker" of="broker" api=${api} live=${live}
      measures=${["messages_in", "bytes_in", "bytes_out", "requests", "size"]} />`}
    <${Newest} state=${state} />
  </div>`;
}

/** Whether the protocol or a broker has told anything, or why it tells nothing.
 * @param {import("../reducer.js").State} state */
function hasReported(state) {
  return ["node", "cluster", "broker", "reachable"].some((kind) => all(state, kind).length > 0);
}

/** @param {{state: import("../reducer.js").State}} props */
function Totals({ state }) {
  const views = partitions(state);
  const totals = one(state, null, "cluster");
  const topics = totals?.topics ?? new Set(views.map(({ topic }) => topic)).size;
  const groups = totals?.groups
    ?? new Set(all(state, "group").map(({ name }) => name)).size;
  const controller = controllerOf(state);
  const epoch = controllerEpoch(state);
  const { odd, worst } = verdict(state);
  return html`<section class="totals" aria-label="Totals">
    <dl>
      <${Total} name="topics" value=${number(topics)} path="topics" />
      <${Total} name="partitions" value=${number(totals?.partitions ?? views.length)} path="lanes" />
      <${Total} name="groups" value=${number(groups)} path="groups" />
      <${Total} name="controller" path="controller" value=${controller === null ? "none"
        : `broker ${controller}`} more=${epoch === null ? "" : `epoch ${epoch}`} />
    </dl>
    <p class="odd">${odd.length === 0
      ? html`<span class="pill good">nothing odd</span>`
      : odd.map(({ name, count: n, bad }) => html`<a key=${name} href=${hashOf("why")}
          class=${`pill ${bad ? "bad" : "warn"}`}>${number(n)} ${name}</a>`)}</p>
    ${worst.length > 0 && html`<ul class="worst" aria-label="What is odd">${worst.slice(0, MAX_FINDINGS).map(({ id, title }) =>
      html`<li key=${id}><a href=${hashOf("why")}>${title}</a></li>`)}</ul>`}
  </section>`;
}

/**
 * Return what is odd, in numbers, and the findings that a user should look at. If there are findings,
 * something is in numbers.
 * @param {import("../reducer.js").State} state
 */
export function verdict(state) {
  const odd = oddStates(state);
  const worst = findings(state).filter(({ severity }) => severity !== "note");
  if (odd.length === 0 && worst.length > 0) {
    const bad = worst.some(({ severity }) => severity === "critical");
    odd.push({ name: worst.length === 1 ? "finding" : "findings", count: worst.length, bad });
  }
  return { odd, worst };
}

/** @param {{name: string, value: any, more?: string, path: string}} props */
function Total({ name, value, more, path }) {
  return html`<div><dt>${name}</dt><dd><a href=${hashOf(path)}>${value}</a>${
    more && html` <span class="muted">${more}</span>`}</dd></div>`;
}

/** @param {{broker: BrokerView, state: import("../reducer.js").State, api: any}} props */
function BrokerCard({ broker, state, api }) {
  const { id, node, inside } = broker;
  const [look, words] = STATES[broker.state];
  const views = counted(state);
  const beyond = beyondOf(state, id);
  const leads = views.filter(({ leader }) => leader === id).length + beyond.leads;
  const held = views.filter(({ replicas }) => replicas.includes(id));
  const holds = held.length + beyond.replicas;
  const behind = held.filter(({ isr }) => !isr.includes(id)).length + beyond.behind;
  const there = broker.state !== "gone";
  return html`<section class=${`card broker ${there ? "" : "gone"}`} role="listitem" data-entity=${`broker|${id}|`}
    aria-label=${`Broker ${id}, ${words}${broker.controller ? ", the controller" : ""}`}
    style=${{ "--broker": brokerColor(id) }}>
    <header>
      <${BrokerIcon} broker=${id} size=${24} hollow=${!there} />
      <h2>Broker ${id}</h2>
      ${broker.controller && html`<${Crown} epoch=${controllerEpoch(state)} />`}
      <span class="spread"></span>
      <span class=${`pill ${look}`}>${words}</span>
    </header>
    <p class="broker-place muted">${node ? `${node.host}:${node.port}` : ""}${
      node?.rack ? `, rack ${node.rack}` : ""}${
      broker.epoch === null ? "" : html` <span>broker epoch ${broker.epoch}</span>`}</p>
    <dl class="broker-facts">
      <div><dt>leads</dt><dd>${number(leads)}</dd></div>
      <div><dt>replicas</dt><dd>${number(holds)}</dd></div>
      <div class=${behind ? "odd-fact" : ""}><dt>out of ISR</dt><dd>${number(behind)}</dd></div>
      ${inside && !inside.zookeeper_connected && html`<div class="odd-fact"><dt>ZooKeeper</dt>
        <dd>lost</dd></div>`}
    </dl>
    ${inside && html`<${Throughput} state=${state} id=${id} there=${there} />`}
    ${broker.supervised && html`<${Buttons} broker=${broker} state=${state} api=${api} />`}
  </section>`;
}

/** @param {{epoch: number|null}} props */
function Crown({ epoch }) {
  const label = `controller${epoch === null ? "" : `, epoch ${epoch}`}`;
  return html`<span class="broker-crown" title=${label}><svg width="22" height="18" viewBox="0 0 22 18"
    role="img" aria-label=${label}><path d="M2 15 1 5l5.5 4L11 2l4.500 7L21 5l-1 10z"
      fill="var(--set-6)" stroke="var(--mark-edge)" stroke-width="1.2" stroke-linejoin="round" />
    </svg>${epoch !== null && html`<span class="muted">epoch ${epoch}</span>`}</span>`;
}

/** @param {{state: import("../reducer.js").State, id: number, there: boolean}} props */
function Throughput({ state, id, there }) {
  const kept = samples(state, id, "broker");
  const row = (/** @type {string} */ name, /** @type {string} */ title,
    /** @type {(n: any) => string} */ format) => {
    const points = rates(kept, name, there ? state.at : undefined, state.gaps);
    const now = there ? points.at(-1)?.value ?? 0 : 0;
    return html`<div class="through"><span class="muted">${title}</span>
      <${Sparkline} values=${points.map(({ value }) => value ?? 0)} color=${brokerColor(id)}
        label=${`${title} of broker ${id} over time, now ${format(now)} a second`} />
      <span class="num">${format(now)}/s</span></div>`;
  };
  return html`<div class="throughput">
    ${row("messages_in", "records in", brief)}
    ${row("bytes_in", "bytes in", bytes)}
    ${row("bytes_out", "bytes out", bytes)}
  </div>`;
}

/** @param {{broker: BrokerView, state: import("../reducer.js").State, api: any}} props */
function Buttons({ broker, state, api }) {
  const verbs = state.hello?.supervised ?? [];
  if (!state.hello?.live || state.hello.read_only || !verbs.length) return null;
  const paused = (state.hello.brokers_paused ?? []).includes(broker.id);
  const isolated = (state.hello.brokers_isolated ?? []).includes(broker.id);
  const is = { paused, isolated, neither: !paused && !isolated };
  return html`<div class="row broker-acts">${SUPERVISED
    .filter(({ verb, when, of }) => verbs.includes(verb) && when.includes(broker.state) && (!of || is[of]))
    .map(({ verb, label, look }) => html`<${ActButton} key=${verb} act=${`broker-${verb}`} label=${label}
      className=${look} args=${{ broker: broker.id }} fixed=${["broker"]} api=${api} state=${state} />`)}</div>`;
}

/** Records per second of all brokers over time.
 * @param {{state: import("../reducer.js").State, brokers: BrokerView[]}} props */
function Rates({ state, brokers: found }) {
  const lines = found.map(({ id, state: is }) => ({
    id, gone: is === "gone",
    points: rates(samples(state, id, "broker"), "messages_in",
      is === "gone" ? undefined : state.at, state.gaps),
  }));
  const shown = lines.filter(({ points }) => points.length > 0);
  if (!shown.length) return null;
  const second = (/** @type {{at: number}} */ { at }) => Math.round(at / 1000) * 1000;
  const times = [...new Set(shown.flatMap(({ points }) => points.map(second)))].sort((a, b) => a - b);
  const values = shown.map(({ points, gone }) => {
    const at = new Map(points.map((point) => [second(point), point.value]));
    const known = times.map((ms) => at.get(ms)); // undefined: the line goes on; null: it breaks
    const last = known.findLastIndex((value) => value !== undefined);
    return gone ? known : known.map((value, i) => (i > last ? known[last] : value));
  });
  const rows = times.map((at, i) => ({
    at, ...Object.fromEntries(shown.map(({ id }, n) => [`b${id}`, values[n][i]])),
  })).reverse();
  const columns = [
    { key: "at", title: "time", render: (/** @type {any} */ row) => time(row.at) },
    ...shown.map(({ id }) => ({ key: `b${id}`, title: `broker ${id}`, align: /** @type {"right"} */ ("right"),
      render: (/** @type {any} */ row) => brief(row[`b${id}`]) })),
  ];
  return html`<${Twin} title="Records in, per second" columns=${columns} rows=${rows}>
    <${Chart} times=${times} format=${brief} height=${170}
      label=${`Records per second of ${count(shown.length, "broker")} over the last ${
        duration(times[times.length - 1] - times[0])}`}
      lines=${shown.map(({ id }, n) => ({ label: `broker ${id}`, color: brokerColor(id),
        values: values[n], dash: DASHES[n % DASHES.length] }))} />
  <//>`;
}

/** The newest events, folded. @param {{state: import("../reducer.js").State}} props */
function Newest({ state }) {
  const lines = folded(state.events.slice(-400)).slice(0, 8);
  if (!lines.length) return null;
  return html`<section aria-label="Newest events"><h2>Newest events <a class="more"
    href=${hashOf("events")}>all</a></h2>
    <ol class="events">${lines.map((line) => html`<${EventLine} key=${line.key} line=${line} />`)}</ol>
  </section>`;
}

/** Topics as rows, partitions as the marks of their leaders.
 * @param {{state: import("../reducer.js").State, go: any}} props */
function LeaderMap({ state, go }) {
  const [box, width] = useWidth();
  const views = partitions(state);
  if (!views.length) return html`<${Empty}>There are no topics yet.<//>`;
  const topics = byTopic(views);
  const shown = topics.slice(0, MAX_TOPICS);
  const columns = [
    { key: "name", title: "partition" },
    { key: "leader", title: "leader", align: /** @type {"right"} */ ("right") },
    { key: "leaderEpoch", title: "leader epoch", align: /** @type {"right"} */ ("right") },
    { key: "replicas", title: "replicas" },
    { key: "isr", title: "ISR" },
  ];
  return html`<${Twin} title="Who leads" columns=${columns} rows=${views}
    rowKey=${(/** @type {PartitionView} */ row) => row.name}
    about="A mark for each partition, in the colour and shape of its leader. A dashed ring: a replica is out of the ISR. A cross: no leader.">
    <div ref=${box} class="leader-map">${shown.map(([topic, list]) => html`<${TopicRow}
      key=${topic} topic=${topic} list=${list} width=${width} go=${go} />`)}
    ${topics.length > shown.length && html`<p class="muted">${
      count(topics.length - shown.length, "more topic")} in <a href=${hashOf("lanes")}>partition
      lanes</a>.</p>`}</div>
  <//>`;
}

/** Topics of users first. @param {PartitionView[]} views @returns {[string, PartitionView[]][]} */
function byTopic(views) {
  /** @type {Map<string, PartitionView[]>} */
  const topics = new Map();
  for (const view of views) {
    const list = topics.get(view.topic);
    if (list) list.push(view);
    else topics.set(view.topic, [view]);
  }
  return [...topics].sort(([, [a]], [, [b]]) => Number(a.internal) - Number(b.internal));
}

/** @param {{topic: string, list: PartitionView[], width: number, go: any}} props */
function TopicRow({ topic, list, width, go }) {
  const cell = 24;
  const shown = list.slice(0, MAX_CELLS);
  const perRow = Math.max(1, Math.floor((width - (width > 560 ? 190 : 0)) / cell));
  const rows = Math.ceil(shown.length / perRow);
  const columns = Math.min(perRow, shown.length);
  return html`<div class="topic-row">
    <a href=${hashOf("lanes", { name: topic })} class="topic-name">${topic}</a>
    <svg role="group" aria-label=${`Leaders of ${topic}`} width=${columns * cell}
      height=${rows * cell}>${shown.map((view, i) => html`<${Cell} key=${view.name} view=${view}
        x=${(i % perRow) * cell + cell / 2} y=${Math.floor(i / perRow) * cell + cell / 2}
        press=${() => go("lanes", { name: view.name })} />`)}</svg>
    ${list.length > shown.length && html`<span class="muted">${
      `and ${number(list.length - shown.length)} more`}</span>`}
  </div>`;
}

/** @param {{view: PartitionView, x: number, y: number, press: () => void}} props */
function Cell({ view, x, y, press }) {
  const { name, leader, isr, replicas, leaderEpoch } = view;
  const under = isr.length < replicas.length;
  const label = leader === null ? `${name}: no leader`
    : `${name}: led by broker ${leader}, epoch ${leaderEpoch ?? "unknown"}${
      under ? `, ISR ${isr.join(", ")} of ${replicas.join(", ")}` : ""}`;
  return html`<${Node} label=${label} onClick=${press} transform=${`translate(${x} ${y})`}
    class="leader-cell">
    <rect x="-12" y="-12" width="24" height="24" rx="5" class="cell-hit" />
    ${leader === null
      ? html`<path d="M-5-5 5 5M5-5-5 5" stroke="var(--bad)" stroke-width="2.5" />`
      : html`<${BrokerMark} broker=${leader} r=${5.5} />`}
    ${under && html`<circle r="10" fill="none" class="under-ring" />`}
  <//>`;
}

export const view = { path: "cluster", title: "Cluster", key: "1", component: Cluster };
