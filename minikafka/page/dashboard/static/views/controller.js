/** The view "Controller": its queue, the event under way, its state machines and its channels. */

import { Empty, OnlyMinikafka } from "../parts/empty.js";
import { count, duration, number, time } from "../parts/format.js";
import { html, useState } from "../parts/html.js";
import { BrokerName } from "../parts/svg.js";
import { Table } from "../parts/table.js";
import { Twin } from "../parts/twin.js";
import { all } from "../reducer.js";
import { addressed } from "../route.js";
import { MachinePicture } from "./machine_picture.js";
import { edgeKey, PARTITION_MACHINE, REPLICA_MACHINE, withEvents } from "./state_machines.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {import("./state_machines.js").Transition} Transition */

/** What a kind of event means, where its name does not say it. @type {Object<string, string>} */
const KINDS = {
  Startup: "the broker started and stood for election",
  ControllerChange: "the znode /controller changed",
  Reelect: "the broker stood for election again",
  BrokerChange: "a broker was registered or has gone",
  BrokerModifications: "a broker changed its endpoints",
  TopicChange: "a topic was created or has gone",
  TopicDeletion: "a topic shall be deleted",
  PartitionModifications: "a topic got more partitions",
  AlterPartition: "a leader requested another ISR",
  IsrChangeNotification: "leaders announced ISRs that they wrote themselves",
  LeaderAndIsrResponseReceived: "a broker responded to LeaderAndIsr",
  UpdateMetadataResponseReceived: "a broker responded to UpdateMetadata",
  TopicDeletionStopReplicaResponseReceived: "a broker has deleted replicas, or could not",
  ControlledShutdown: "a broker wants to stop",
  AutoPreferredReplicaLeaderElection: "the timer of the leader balance",
  ReplicaLeaderElection: "someone requested elections",
  ApiPartitionReassignment: "someone requested reassignments",
  ListPartitionReassignments: "someone requested the list of reassignments",
  AllocateProducerIds: "a broker needs producer ids",
  LogDirEventNotification: "a broker reported a failed disk",
};

const QUEUED_SHOWN = 12;
const ZNODES_SHOWN = 2;
const RIGHT = /** @type {"right"} */ ("right");

/** @param {{state: State}} props */
function Component({ state }) {
  const reports = all(state, "controller");
  if (!reports.length) return html`<${OnlyMinikafka} state=${state} what="its controller" />`;
  const active = reports.filter(({ facts }) => facts.active);
  if (!active.length) {
    return html`<div class="inner"><${Empty} title="No broker says that it is the controller.">
      A broker becomes controller by creating the znode /controller. <a href="#/why">Why?</a><//></div>`;
  }
  return html`<div class="inner">
    <p class="lead">One broker is the controller. It handles one event after the other: watches of ZooKeeper, responses of
      brokers and requests become events in its queue, and only it writes leaders and ISRs.</p>
    ${
      active.length > 1 &&
      html`<p class="notice bad" role="alert">${count(active.length, "broker")} say that they are the
      controller. The one with the highest epoch is right.</p>`
    }
    ${active.map(({ broker, facts }) => html`<${Controller} key=${broker} state=${state} broker=${broker} facts=${facts} />`)}
  </div>`;
}

/** @param {{state: State, broker: number|null, facts: any}} props */
function Controller({ state, broker, facts }) {
  const [edge, setEdge] = useState("");
  const transitions = withEvents(facts.transitions || [], state.events, broker);
  const ofReplicas = transitions.filter((/** @type {Transition} */ row) => row.replica !== null);
  const ofPartitions = transitions.filter((/** @type {Transition} */ row) => row.replica === null);
  return html`
    <${Now} state=${state} broker=${broker} facts=${facts} />
    <${MachinePicture} machine=${PARTITION_MACHINE} transitions=${ofPartitions} now=${state.at} chosen=${edge} choose=${setEdge} />
    <${MachinePicture} machine=${REPLICA_MACHINE} transitions=${ofReplicas} now=${state.at} chosen=${edge} choose=${setEdge} />
    <${Transitions} rows=${transitions} edge=${edge} choose=${setEdge} />
    <${EventTimes} events=${facts.events || []} />
    <${Multis} rows=${facts.multis} />
    <${Channels} rows=${facts.brokers || []} controller=${broker} />
    <${Work} state=${state} facts=${facts} />`;
}

/** @param {{state: State, broker: number|null, facts: any}} props */
function Now({ state, broker, facts }) {
  const busy = facts.state !== "IDLE";
  const event = facts.handling;
  const waiting = Object.entries(facts.queued || {}).flatMap(([kind, n]) =>
    Array.from({ length: Math.min(n, QUEUED_SHOWN) }, () => kind),
  );
  return html`<section class="card controller-now" aria-label="The controller now" data-entity=${`controller|${broker}|`}>
    <div><span class="big-name"><span aria-hidden="true" class="crown">♛</span> <${BrokerName} broker=${broker} /></span>
      <p class="muted">controller of epoch <b>${number(facts.epoch)}</b></p></div>
    <div><p class="small-title">Under way</p>
      <span class=${`pill ${busy || event ? "warn" : "good"}`}>${event ? event.event : busy ? facts.state : "idle"}</span>
      <p class="muted">${event ? html`for ${duration(Math.max(0, state.at - event.since_ms))}: ${KINDS[event.event] ?? "an event"}` : busy ? "" : "it waits for an event"}</p></div>
    <div><p class="small-title">Queue</p>
      <${Queue} length=${facts.queue} waiting=${waiting} /></div>
  </section>`;
}

/** @param {{length: number, waiting: string[]}} props */
function Queue({ length, waiting }) {
  const shown = Array.from({ length: Math.min(length, QUEUED_SHOWN) }, (_, i) => waiting[i] ?? "");
  return html`<p class="event-queue" role="img" aria-label=${`${count(length, "event")} in the queue${waiting.length ? `: ${waiting.join(", ")}` : ""}`}>
    ${shown.map((kind, i) => html`<span key=${i} class="queued" title=${kind}>${kind && html`<span>${kind}</span>`}</span>`)}
    ${length > QUEUED_SHOWN && html`<span>+ ${number(length - QUEUED_SHOWN)}</span>`}
    ${length === 0 && html`<span class="muted">empty</span>`}</p>
    ${length > 0 && html`<p class="muted">${count(length, "event waits", "events wait")}</p>`}`;
}

/** @param {{rows: Transition[], edge: string, choose: (edge: string) => void}} props */
function Transitions({ rows, edge, choose }) {
  const [text, setText] = addressed("text");
  const found = rows.filter(
    (row) =>
      (!edge || edgeKey(row.before, row.after) === edge) &&
      (!text ||
        `${row.partition} ${row.replica ?? ""} ${row.before} ${row.after}`
          .toLowerCase()
          .includes(text.toLowerCase())),
  );
  const columns = [
    { key: "time_ms", title: "Time", render: (/** @type {Transition} */ row) => time(row.time_ms) },
    { key: "partition", title: "Partition" },
    {
      key: "replica",
      title: "Replica on",
      render: (/** @type {Transition} */ row) =>
        row.replica === null ? "–" : html`<${BrokerName} broker=${row.replica} />`,
    },
    { key: "before", title: "From" },
    { key: "after", title: "To" },
    {
      key: "leader",
      title: "Leader",
      render: (/** @type {Transition} */ row) =>
        row.leader === null ? "–" : html`<${BrokerName} broker=${row.leader} />`,
    },
    { key: "leader_epoch", title: "Leader epoch", align: RIGHT },
    {
      key: "isr",
      title: "ISR",
      value: (/** @type {Transition} */ row) => (row.isr || []).join(", "),
    },
  ];
  return html`<section class="card"><h2>Last transitions</h2>
    <p class="toolbar"><label>Filter <input type="search" value=${text} placeholder="orders-0, Offline ..."
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
      ${edge && html`<button class="small" aria-pressed="true" onClick=${() => choose("")}>${edge.replace(">", "→")} ✕</button>`}
      <span class="muted">${count(found.length, "transition")}</span></p>
    <${Table} caption="Last transitions of partitions and replicas, newest first" columns=${columns} rows=${found} pageSize=${15}
      none=${rows.length ? "No transition matches." : "Nothing has changed since this broker became controller."} /></section>`;
}

/** @param {{events: any[]}} props */
function EventTimes({ events }) {
  const rows = events.slice().sort((a, b) => b.total_ms - a.total_ms);
  const most = Math.max(1, ...rows.map(({ total_ms: total }) => total));
  const columns = [
    { key: "event", title: "Kind of event" },
    { key: "count", title: "Handled", align: RIGHT },
    { key: "total_ms", title: "In all (ms)", align: RIGHT },
    { key: "mean_ms", title: "Mean (ms)", align: RIGHT },
    { key: "longest_ms", title: "Longest (ms)", align: RIGHT },
    { key: "mean_queue_ms", title: "Mean wait in the queue (ms)", align: RIGHT },
  ];
  if (!rows.length) return null;
  return html`<${Twin} title="Time by kind of event" columns=${columns} rows=${rows} rowKey=${(/** @type {any} */ row) => row.event}
    about="The bar is the time in all; the darker end of it is the longest event.">
    <ul class="bars">${rows.map(
      (
        row,
      ) => html`<li key=${row.event} aria-label=${`${row.event}: ${number(row.count)} handled in ${duration(row.total_ms)}, the longest in ${duration(row.longest_ms)}`}>
      <span class="bars-name" title=${KINDS[row.event] ?? ""}>${row.event}</span>
      <span class="bars-track" aria-hidden="true"><span class="bars-all" style=${{ width: `${(row.total_ms / most) * 100}%` }}><span
        class="bars-longest" style=${{ width: row.total_ms ? `${(Math.min(row.longest_ms, row.total_ms) / row.total_ms) * 100}%` : "0" }}></span></span></span>
      <span class="bars-text">${number(row.count)} × ${duration(row.mean_ms)}</span></li>`,
    )}</ul>
  <//>`;
}

/** @param {{rows: any[], controller: number|null}} props */
function Channels({ rows, controller }) {
  const columns = [
    {
      key: "broker",
      title: "To",
      render: (/** @type {any} */ row) => html`<${BrokerName} broker=${row.broker} />`,
    },
    { key: "queue", title: "Requests in the queue", align: RIGHT },
    {
      key: "troubled",
      title: "State",
      render: (/** @type {any} */ row) =>
        html`<span class=${`pill ${row.troubled ? "bad" : "good"}`}>${row.troubled ? "cannot send" : "works"}</span>`,
    },
  ];
  return html`<section class="card"><h2>Channels to brokers</h2>
    <p class="muted">Controller ${controller} sends LeaderAndIsr, StopReplica and UpdateMetadata in order, over one connection to each broker.</p>
    <${Table} caption="Channels of the controller" columns=${columns} rows=${rows} rowKey=${(/** @type {any} */ row) => row.broker} none="No channel is open." /></section>`;
}

/** @param {{rows: any[]|undefined}} props */
function Multis({ rows }) {
  if (!rows) return null;
  const columns = [
    { key: "time_ms", title: "Time", render: (/** @type {any} */ row) => time(row.time_ms) },
    { key: "operations", title: "Writes", align: RIGHT },
    {
      key: "paths",
      title: "Znodes",
      render: (/** @type {any} */ row) => html`<${Znodes} row=${row} />`,
    },
    {
      key: "took_us",
      title: "Took",
      render: (/** @type {any} */ row) => duration(row.took_us / 1000),
      align: RIGHT,
    },
    {
      key: "error",
      title: "Result",
      render: (/** @type {any} */ row) =>
        html`<span class=${`pill ${row.error ? "bad" : "good"}`}>${row.error || "written"}</span>`,
    },
  ];
  return html`<section class="card"><h2>Last multis</h2>
    <p class="muted">A multi writes several znodes of ZooKeeper: all of it or nothing, and only if the controller epoch is still the same.</p>
    <${Table} caption="Last multis of the controller, newest first" columns=${columns} rows=${rows} pageSize=${8} none="Nothing was written yet." /></section>`;
}

/** @param {{row: any}} props */
function Znodes({ row }) {
  const paths = row.paths.slice(0, ZNODES_SHOWN);
  const more = row.operations - paths.length;
  return html`<span class="znodes">${paths.map((/** @type {string} */ path) => html`<code key=${path}>${path}</code> `)}${more > 0 && html`<span class="muted">and ${number(more)} more</span>`}</span>`;
}

/** Reassignments as the controller has them, else as the protocol has them, and deletions.
 * @param {{state: State, facts: any}} props */
function Work({ state, facts }) {
  const moves =
    facts.reassignments ??
    all(state, "reassignment", null).map(({ name, facts: row }) => ({ partition: name, ...row }));
  const deletions = facts.deletions ?? [];
  return html`<div class="inner-pair">
    <section class="card"><h2>Reassignments</h2>${
      moves.length
        ? html`<${Table} caption="Partitions that are being reassigned" columns=${MOVE_COLUMNS} rows=${moves} rowKey=${(/** @type {any} */ row) => row.partition} pageSize=${10} />`
        : html`<p class="muted">No partition is being reassigned.</p>`
    }</section>
    <section class="card"><h2>Deletions</h2>${
      deletions.length
        ? html`<${Table} caption="Topics that are being deleted" columns=${DELETION_COLUMNS} rows=${deletions} rowKey=${(/** @type {any} */ row) => row.topic} pageSize=${10} />`
        : html`<p class="muted">No topic is being deleted.</p>`
    }</section>
  </div>`;
}

const MOVE_COLUMNS = [
  { key: "partition", title: "Partition" },
  { key: "replicas", title: "Replicas" },
  { key: "adding", title: "Adding" },
  { key: "removing", title: "Removing" },
  { key: "isr", title: "ISR", value: (/** @type {any} */ row) => row.isr ?? [] },
  {
    key: "step",
    title: "Last step",
    render: (/** @type {any} */ row) =>
      row.step === undefined
        ? "–"
        : html`<span class="left"><span class="bar" aria-hidden="true"><span
      style=${{ width: `${(row.step / row.steps) * 100}%` }}></span></span> ${row.step} of ${row.steps}: ${row.step_name}</span>`,
  },
];

const DELETION_COLUMNS = [
  { key: "topic", title: "Topic" },
  {
    key: "halted",
    title: "State",
    value: (/** @type {any} */ row) =>
      row.halted
        ? "halted: a broker is dead, or a partition is being reassigned"
        : row.started
          ? "started"
          : "waits",
  },
  {
    key: "replicas",
    title: "Replicas",
    value: (/** @type {any} */ row) =>
      Object.entries(row.replicas ?? {})
        .map(([name, n]) => `${n} ${name}`)
        .concat(row.all_counted === false ? ["others"] : [])
        .join(", "),
  },
];

export const view = { path: "controller", title: "Controller", key: "3", component: Component };
