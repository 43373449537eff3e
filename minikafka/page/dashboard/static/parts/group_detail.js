/**
 * One group: phase, members, lag over time, the reset of its offsets; share-partitions, and tasks.
 * @module
 */
import { all } from "../reducer.js";
import { ActButton } from "./act.js";
import { Empty } from "./empty.js";
import { count, duration, lagTime, number, time } from "./format.js";
import { PhaseDiagram, PhaseMark, phasesOf } from "./group_phase.js";
import { GroupOffsets } from "./group_offsets.js";
import { HistoryChart } from "./history_chart.js";
import { html, useRef, useState } from "./html.js";
import { emptyHistory, withPoint } from "./lag_history.js";
import { LagLines } from "./lag_lines.js";
import { usePolled } from "./polled.js";
import { SharePartitions } from "./share_partitions.js";
import { BrokerName } from "./svg.js";
import { Table } from "./table.js";
import { Twin } from "./twin.js";

const POLL_MS = 2000;

/** @type {Map<string, import("./lag_history.js").LagHistory>} of the groups that were open */
const histories = new Map();
const MAX_HISTORIES = 20;
/** What a member of a consumer or streams group still has to do, by its state. */
const STEPS = /** @type {Object<string, string>} */ ({
  UNREVOKED_PARTITIONS: "to revoke",
  UNRELEASED_PARTITIONS: "for partitions of others",
  UNREVOKED_TASKS: "to revoke",
  UNRELEASED_TASKS: "for tasks of others",
});
/** Types of groups with epochs: their coordinator assigns partitions or tasks. */
const IN_EPOCHS = new Set(["consumer", "share", "streams"]);

/** @param {any} props */
export function GroupDetail({ name, state, api, go }) {
  const [changes, setChanges] = useState(0);
  const live = state.hello?.live !== false;
  const path = `groups/${encodeURIComponent(name)}`;
  const polled = usePolled({ api, path, live: live && Boolean(state.hello), everyMs: POLL_MS, changed: changes });
  const reported = all(state, "consumer_group").find((entity) => entity.name === name);
  const inside = all(state, "group").find((entity) => entity.name === name);
  const facts = polled.facts ?? reported?.facts;
  const history = useHistory(name, facts, polled.facts ? polled.at : (reported?.at ?? 0));
  const phase = inside?.facts.state ?? facts?.state;
  const type = facts?.type ?? inside?.facts.type;
  const done = () => setChanges((/** @type {number} */ n) => n + 1);
  if (!facts && !inside) {
    return html`<${Back} />
      ${polled.problem
        ? html`<p class="notice bad" role="alert">${polled.problem}</p>`
        : html`<${Empty}>${live ? `Reading the group ${name}…` : `This recording has no group ${name} at this time.`}<//>`}`;
  }
  const coordinator = facts?.coordinator ?? inside?.broker ?? null;
  const members = html`<${Members} name=${name} type=${type} facts=${facts} inside=${inside} state=${state} />`;
  const phases = phasesOf(type) && html`<${Phase} phase=${phase} type=${type} since=${inside?.facts.since_ms} now=${state.at} />`;
  return html`<div class="detail">
    <${Back} />
    <header class="detail-head" data-entity=${`group|${coordinator ?? ""}|${name}`}>
      <h2>${name}</h2>
      <span class="spread"></span>
      <${ActButton} act="groups-delete" label="Delete group" args=${{ group: name }} fixed=${["group"]}
        state=${state} api=${api} done=${() => go("groups")} />
    </header>
    ${polled.problem && html`<p class="notice bad" role="alert">${polled.problem}</p>`}
    <dl class="facts">
      <div><dt>coordinator</dt><dd><${BrokerName} broker=${coordinator} /></dd></div>
      <div><dt>lag</dt><dd>${number(facts?.lag)}</dd></div>
      ${type !== "share" && live && html`<div><dt>lag in time</dt><dd>${lagTime(facts ?? {})}</dd></div>`}
      <div><dt>type</dt><dd>${type ?? "–"}</dd></div>
      ${!phasesOf(type) && html`<div><dt>phase</dt><dd><${PhaseMark} phase=${phase} /></dd></div>`}
      <div><dt>assignment protocol</dt><dd>${facts?.protocol || inside?.facts.protocol || "–"}</dd></div>
      ${type === "streams" && html`<div><dt>topology epoch</dt><dd>${number(facts?.topology_epoch)}</dd></div>`}
      ${IN_EPOCHS.has(type)
        ? html`<div><dt>group epoch</dt><dd>${number(facts?.epoch ?? inside?.facts.epoch)}</dd></div>
            <div><dt>target assignment epoch</dt><dd>${number(facts?.target_epoch ?? inside?.facts.target_epoch)}</dd></div>`
        : html`<div><dt>generation</dt><dd>${number(inside?.facts.generation)}</dd></div>
            <div><dt>pending members</dt><dd>${number(inside?.facts.pending_members)}</dd></div>`}
      <div class="wide"><dt>last eviction</dt><dd>${eviction(inside?.facts.last_eviction)}</dd></div>
    </dl>
    ${IN_EPOCHS.has(type) ? [members, phases] : [phases, members]}
    ${type === "streams" && html`<${Subtopologies} sources=${facts?.subtopologies ?? {}} />`}
    ${type === "share"
      ? html`<${SharePartitions} group=${name} facts=${facts} state=${state} />`
      : html`<${LagLines} group=${name} history=${history} />
          <${HistoryChart} title="Lag over the last day" of="group" name=${name} measures=${["lag_ms", "lag"]} api=${api} live=${live} />
          <${GroupOffsets} group=${name} phase=${phase} offsets=${facts?.offsets ?? []} fixed=${type === "streams"}
            state=${state} api=${api} done=${done} />`}
  </div>`;
}

function Back() {
  return html`<p class="back"><a href="#/groups">‹ All groups</a></p>`;
}

/** @param {any} last */
function eviction(last) {
  return last ? `${last.member}: ${last.reason}, ${time(last.at_ms)}` : "none";
}

/**
 * Keep the offsets of a group over time, also while another view is open in between.
 * @param {string} name
 * @param {any} facts
 * @param {number} at
 */
function useHistory(name, facts, at) {
  const last = useRef(/** @type {any} */ (null));
  if (facts && last.current !== facts) {
    last.current = facts;
    const before = histories.get(name) ?? emptyHistory();
    histories.delete(name);
    histories.set(name, withPoint(before, at, facts.offsets ?? []));
    if (histories.size > MAX_HISTORIES) histories.delete(/** @type {string} */ (histories.keys().next().value));
  }
  return histories.get(name) ?? emptyHistory();
}

/** @param {any} props */
function Phase({ phase, type, since, now }) {
  const long = since ? `for ${duration(Math.max(0, Math.floor((now - since) / 1000)) * 1000)}` : "";
  const phases = phasesOf(type) ?? [];
  const rows = phases.map(({ name, about }) => ({ name, about, current: name === phase }));
  return html`<${Twin} title="Phase" rows=${rows} rowKey=${(/** @type {any} */ row) => row.name}
    about=${phase ? `The group ${long ? `has been ${phase} ${long}` : `is ${phase}`}.` : "The phase is not known."}
    columns=${[
      { key: "name", title: "phase", sortable: false },
      { key: "current", title: "now", sortable: false },
      { key: "about", title: "meaning", sortable: false },
    ]}>
    <${PhaseDiagram} phase=${phase} since=${long} phases=${phases} />
  <//>`;
}

/**
 * Return the members with all that the protocol and the coordinator say about them.
 * @param {string} group
 * @param {any} facts
 * @param {any} inside
 * @param {import("../reducer.js").State} state
 * @returns {any[]}
 */
export function membersOf(group, facts, inside, state) {
  const deadlines = heartbeats(group, inside?.broker ?? null, state);
  /** @type {Map<string, any>} */
  const rows = new Map();
  for (const member of inside?.facts.members ?? []) {
    rows.set(member.member, {
      member: member.member,
      client: member.client,
      host: member.host,
      instance: member.instance,
      leader: member.member === inside.facts.leader,
      waits: member.awaits_join ? "in JoinGroup" : member.awaits_sync ? "in SyncGroup" : (STEPS[member.state] ?? ""),
      session_timeout_ms: member.session_timeout_ms,
      due_ms: deadlines.get(member.member) ?? null,
    });
  }
  for (const member of facts?.members ?? []) {
    const known = rows.get(member.member_id) ?? {};
    rows.set(member.member_id, {
      ...known,
      member: member.member_id,
      client: member.client_id,
      host: member.host,
      instance: member.instance_id ?? known.instance ?? null,
      assignment: assignmentText(member.assignment),
      epoch: member.epoch,
      target: assignmentText(member.target_assignment ?? member.target_tasks?.active),
      topology_epoch: member.topology_epoch,
      active: assignmentText(member.tasks?.active),
      standby: assignmentText(member.tasks?.standby),
      warmup: assignmentText(member.tasks?.warmup),
      endpoint: member.endpoint,
      process: member.process_id,
    });
  }
  return [...rows.values()];
}

/**
 * Return the milliseconds until each member's heartbeat is due, by member id: the operations of the
 * coordinator's purgatory "Heartbeat" have keys GROUP-MEMBER.
 * @param {string} group
 * @param {number|null} coordinator
 * @param {import("../reducer.js").State} state
 * @returns {Map<string, number>}
 */
function heartbeats(group, coordinator, state) {
  const found = new Map();
  const purgatory = all(state, "purgatory").find(
    (entity) => entity.broker === coordinator && entity.name === "Heartbeat",
  );
  for (const operation of purgatory?.facts.operations ?? []) {
    for (const key of operation.keys) {
      if (!key.startsWith(`${group}-`)) continue;
      const age = state.at - /** @type {any} */ (purgatory).at;
      found.set(key.slice(group.length + 1), operation.remaining_ms - age);
    }
  }
  return found;
}

/** @param {Record<string, number[]>|null|undefined} assignment */
function assignmentText(assignment) {
  const topics = Object.entries(assignment ?? {});
  return topics.map(([topic, partitions]) => `${topic}: ${partitions.join(", ")}`).join("; ");
}

/** @param {any} props */
function Members({ name, type, facts, inside, state }) {
  const rows = membersOf(name, facts, inside, state);
  const member = { key: "member", title: "member", render: (/** @type {any} */ row) => html`<span class="id">${row.member}</span>${row.leader ? " (leader)" : ""}` };
  const client = { key: "client", title: "client id" };
  const place = [{ key: "host", title: "host" }, { key: "instance", title: "instance id" }];
  const assignment = { key: "assignment", title: "assignment" };
  const waits = { key: "waits", title: "waits", render: (/** @type {any} */ row) => (row.waits ? html`<span class="pill warn">${row.waits}</span>` : "–") };
  const columns = IN_EPOCHS.has(type)
    ? [
        client,
        { key: "epoch", title: "epoch", render: (/** @type {any} */ row) => number(row.epoch) },
        ...(type === "streams" ? TASKS : [assignment]),
        ...(type === "consumer" ? [{ key: "target", title: "target assignment" }] : []),
        ...(inside && type !== "share" ? [waits] : []),
        member,
        ...(type === "share" ? place.slice(0, 1) : place),
      ]
    : [
        member,
        client,
        ...place,
        assignment,
        ...(inside
          ? [waits, { key: "due_ms", title: "heartbeat due in", render: (/** @type {any} */ row) => html`<${Due} row=${row} />` }]
          : []),
      ];
  return html`<section class="card" aria-label="Members">
    <h3>${count(rows.length, "member")}</h3>
    ${!inside && !IN_EPOCHS.has(type) && rows.length > 0 && html`<p class="muted">Only a minikafka coordinator shows waiting requests and heartbeat deadlines.</p>`}
    <${Table} caption="Members of the group" columns=${columns} rows=${rows}
      rowKey=${(/** @type {any} */ row) => row.member} none="The group has no members." />
  </section>`;
}

/** Columns of a streams group, whose members have tasks. */
const TASKS = [
  { key: "active", title: "active tasks" },
  { key: "standby", title: "standby tasks" },
  { key: "warmup", title: "warm-up tasks" },
  { key: "target", title: "target of active tasks" },
  { key: "topology_epoch", title: "topology epoch" },
  { key: "endpoint", title: "endpoint" },
  { key: "process", title: "process" },
];

/** What the tasks of each subtopology read. @param {{sources: Record<string, string[]>}} props */
function Subtopologies({ sources }) {
  const rows = Object.entries(sources).map(([name, topics]) => ({ name, topics }));
  return html`<section class="card" aria-label="Subtopologies">
    <h3>${count(rows.length, "subtopology", "subtopologies")}</h3>
    <${Table} caption="Subtopologies of the group" rows=${rows} rowKey=${(/** @type {any} */ row) => row.name}
      columns=${[{ key: "name", title: "subtopology" }, { key: "topics", title: "topics that its tasks read" }]}
      none="The topology is not known." />
  </section>`;
}

/** How long until a member is evicted, unless its heartbeat comes. @param {{row: any}} props */
function Due({ row }) {
  if (row.due_ms === null || row.due_ms === undefined) return row.session_timeout_ms ? `within ${duration(row.session_timeout_ms)}` : "–";
  const left = Math.max(0, row.due_ms);
  const text = duration(Math.round(left / 100) * 100);
  return html`<span class="due"><meter min="0" max=${row.session_timeout_ms} low=${row.session_timeout_ms / 3} value=${left}
    aria-label=${`Heartbeat due in ${text}`}></meter> ${text}</span>`;
}
