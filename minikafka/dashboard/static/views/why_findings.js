/**
 * What is odd in a cluster, and why: a pure function of the page's state. Each finding has a
 * severity, a sentence, the chain of events that led there, and the view that shows it.
 */

import { all, one } from "../reducer.js";
import { groupFindings, transactionFindings } from "./why_clients.js";
import { chain } from "./event_chains.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {import("./event_chains.js").Link} Link */
/**
 * @typedef {"critical"|"warning"|"note"} Severity
 * @typedef {{id: string, kind: string, severity: Severity, title: string, detail: string,
 *   partitions?: string[], view: {path: string, label: string}, chain: Link[]}} Finding
 * @typedef {{name: string, leader: number|null, replicas: number[], isr: number[],
 *   offline: number[], minIsr: number|null, internal: boolean, epoch: number}} PartitionView
 *   `epoch` of the leader
 */

const STALLS_FOR_MS = 60_000; // a stall is a finding for so long
const UNCLEAN_FOR_MS = 600_000;
const SEVERITIES = ["critical", "warning", "note"];
const NO_LEADER = -1;

/**
 * Return what is odd, the worst first.
 *
 * @param {State} state
 * @returns {Finding[]}
 */
export function findings(state) {
  const partitions = partitionViews(state);
  const found = [
    ...controllerFindings(state),
    ...brokerFindings(state, partitions),
    ...partitionFindings(state, partitions),
    ...diskFindings(state),
    ...transactionFindings(state),
    ...groupFindings(state),
    ...throttleFindings(state),
    ...stallFindings(state),
  ];
  return found.sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
}

/**
 * Return all partitions, as the protocol has them. What their leaders report of them is fresher.
 *
 * @param {State} state
 * @returns {PartitionView[]}
 */
export function partitionViews(state) {
  /** @type {Map<string, PartitionView>} */
  const views = new Map();
  for (const { facts } of all(state, "topic", null)) {
    const setting = (facts.configs || []).find((/** @type {any} */ c) => c.name === "min.insync.replicas");
    for (const row of facts.partitions || []) {
      const name = `${facts.name}-${row.partition}`;
      views.set(name, {
        name,
        leader: known(row.leader),
        replicas: row.replicas || [],
        isr: row.isr || [],
        offline: row.offline || [],
        minIsr: setting ? Number(setting.value) : null,
        internal: Boolean(facts.internal),
        epoch: row.leader_epoch ?? -1,
      });
    }
  }
  for (const { name, facts } of all(state, "partition")) {
    if (!facts.is_leader) continue;
    const view = views.get(name);
    const leaders = ofLeader(name, facts);
    if (!view) views.set(name, leaders);
    else if (leaders.epoch >= view.epoch) {
      views.set(name, { ...leaders, offline: view.offline, internal: view.internal, minIsr: leaders.minIsr ?? view.minIsr });
    }
  }
  return [...views.values()];
}

/** @param {string} name @param {any} facts @returns {PartitionView} */
function ofLeader(name, facts) {
  return {
    name,
    leader: known(facts.leader),
    replicas: facts.replicas || [],
    isr: facts.isr || [],
    offline: [],
    minIsr: facts.min_insync_replicas ?? facts.min_isr ?? null,
    internal: name.startsWith("__"),
    epoch: facts.leader_epoch ?? -1,
  };
}

/** @param {number|null|undefined} leader */
function known(leader) {
  return leader === undefined || leader === NO_LEADER ? null : leader;
}

/** Name a few things, and how many more there are. @param {string[]} names */
export function few(names) {
  if (names.length <= 3) return names.join(", ");
  return `${names.slice(0, 3).join(", ")} and ${names.length - 3} more`;
}

/** @param {number} n @param {string} noun */
export function counted(n, noun) {
  return n === 1 ? `1 ${noun}` : `${n} ${noun}s`;
}

// ---- the controller

/** @param {State} state @returns {Finding[]} */
function controllerFindings(state) {
  const reports = all(state, "controller");
  const active = reports.filter(({ facts }) => facts.active);
  const cluster = one(state, null, "cluster", "");
  const view = { path: "controller", label: "Controller" };
  const story = {
    events: [
      "controller_elected", "controller_resigned", "controller_moved", "controller_moved_already",
      "elected_controller_resigned", "controller_failover_failed", "controller_failover_completed",
      "event_failed", "session_expired",
    ],
  };
  const found = [];
  if (active.length > 1) {
    const each = active.map(({ broker, facts }) => `broker ${broker} (epoch ${facts.epoch})`).join(" and ");
    found.push(finding("two-controllers", "critical", "Two brokers believe that they are the controller.",
      `They are ${each}. The higher epoch is right; brokers and ZooKeeper refuse what the other one writes.`,
      view, chain(state.events, story)));
  }
  const named = cluster?.controller ?? reports.map(({ facts }) => facts.controller).find((id) => id >= 0);
  const any = cluster !== undefined || reports.length > 0;
  if (any && !active.length && (named === null || named === undefined)) {
    found.push(finding("no-controller", "critical", "The cluster has no controller.",
      "No leader can be elected, and no topic created, until a broker wins the election.",
      view, chain(state.events, story)));
  }
  for (const { broker, facts } of active) {
    for (const { broker: to, queue } of (facts.brokers || []).filter((/** @type {any} */ row) => row.troubled)) {
      found.push(finding(`channel-${to}`, "warning", `Controller ${broker} cannot send to broker ${to}.`,
        `${counted(queue, "request")} wait in the channel; broker ${to} may act on old leaders meanwhile.`,
        view, chain(state.events, { brokers: [to], until: ["broker_connected"] })));
    }
  }
  return found;
}

// ---- brokers

/** @param {State} state @param {PartitionView[]} partitions @returns {Finding[]} */
function brokerFindings(state, partitions) {
  const found = [];
  const view = { path: "cluster", label: "Cluster" };
  const gone = new Set();
  for (const { facts: node } of all(state, "node", null)) {
    if (node.online) continue;
    gone.add(node.id);
    const hosted = partitions.filter(({ replicas }) => replicas.includes(node.id)).length;
    found.push(finding(`gone-${node.id}`, "critical", `Broker ${node.id} is gone.`,
      `It is not registered in ZooKeeper any more. It hosts replicas of ${counted(hosted, "partition")}.`,
      view, chain(state.events, { brokers: [node.id], until: ["broker_started", "brokers_started"] })));
  }
  for (const { broker, facts } of all(state, "reachable")) {
    if (facts.debug || gone.has(broker) || !minikafka(state, broker)) continue;
    found.push(finding(`silent-${broker}`, "warning", `Broker ${broker} is registered, but its debug listener does not respond.`,
      `${facts.reason ? `${plain(facts.reason)} ` : ""}The broker may be paused, cut off from this page, or busy with one long step.`,
      view, chain(state.events, { brokers: [Number(broker)], until: ["broker_started", "brokers_started"] })));
  }
  for (const { broker, facts } of all(state, "broker")) {
    if (facts.zookeeper_connected === false) {
      found.push(finding(`zookeeper-${broker}`, "warning", `Broker ${broker} has no connection to ZooKeeper.`,
        "If it does not return within the session time-out, the controller takes the broker for dead.", view,
        chain(state.events, { brokers: [Number(broker)], names: ["zookeeper_connection_lost", "session_open_failed", "session_expired"], until: ["zookeeper_reconnected"] })));
    }
    if (facts.state && facts.state !== "RUNNING") {
      found.push(finding(`state-${broker}`, "note", `Broker ${broker} is in the state ${facts.state}.`, "", view,
        chain(state.events, { brokers: [Number(broker)] })));
    }
  }
  return found;
}

/** Whether a debug listener is expected of a broker. @param {State} state @param {number|null} broker */
function minikafka(state, broker) {
  const node = one(state, null, "node", String(broker));
  return !node || node.version === undefined || node.version !== null || node.debug != null;
}

/** @param {string} reason */
function plain(reason) {
  const text = reason.trim();
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

// ---- partitions

/** @param {State} state @param {PartitionView[]} partitions @returns {Finding[]} */
function partitionFindings(state, partitions) {
  const view = { path: "lanes", label: "Partition lanes" };
  const found = [];
  const leaderless = partitions.filter(({ leader }) => leader === null);
  for (const [missing, some] of byKey(leaderless, ({ replicas }) => replicas.join(","))) {
    found.push(partitionFinding(state, "leaderless", "critical", some,
      `${counted(some.length, "partition")} ${some.length === 1 ? "has" : "have"} no leader.`,
      `Nothing can be written or read there until a replica of the ISR is back (replicas: ${missing.replaceAll(",", ", ")}).`, view, missing));
  }
  const led = partitions.filter(({ leader }) => leader !== null);
  const below = led.filter(({ isr, minIsr }) => minIsr !== null && isr.length < minIsr);
  if (below.length) {
    const least = Math.max(...below.map(({ minIsr }) => Number(minIsr)));
    found.push(partitionFinding(state, "under-min-isr", "critical", below,
      `${counted(below.length, "partition")} ${below.length === 1 ? "has" : "have"} fewer replicas in sync than min.insync.replicas.`,
      `Producers with acks=all get NOT_ENOUGH_REPLICAS until ${least} replicas are in sync.`, view, ""));
  }
  const moving = new Set(all(state, "reassignment", null).map(({ name }) => name));
  const under = led.filter(({ replicas, isr, name }) => isr.length < replicas.length && !moving.has(name));
  for (const [missing, some] of byKey(under, ({ replicas, isr }) => replicas.filter((id) => !isr.includes(id)).join(","))) {
    const alone = some.filter(({ isr }) => isr.length === 1).length;
    found.push(partitionFinding(state, "under-replicated", "warning", some,
      `${counted(some.length, "partition")} ${some.length === 1 ? "is" : "are"} under-replicated: ${missing.includes(",") ? "brokers" : "broker"} ${missing.replaceAll(",", ", ")} ${missing.includes(",") ? "are" : "is"} not in the ISR.`,
      alone ? `${counted(alone, "partition")} of them ${alone === 1 ? "has" : "have"} only one replica in sync.` : "", view, missing));
  }
  if (moving.size) {
    found.push(finding("reassignment", "note", `${counted(moving.size, "partition")} ${moving.size === 1 ? "is" : "are"} being reassigned.`,
      `New replicas catch up with their leaders: ${few([...moving])}.`, view,
      chain(state.events, { partitions: moving, names: ["new_replicas_awaited", "isr_expanding"] })));
  }
  found.push(...uncleanFindings(state, view));
  return found;
}

const PARTITION_STORY = [
  "brokers_changed", "brokers_failed", "leader_lost", "leader_not_reached", "isr_shrinking", "session_expired",
  "controlled_shutdown_requested", "controlled_shutdown_failed", "broker_stopped", "zookeeper_connection_lost",
  "partition_state_changed", "offline_partition_leader_elected", "partition_state_change_failed",
  "log_directory_failed", "disk_failed", "flush_failed", "replicas_taken_offline", "replicas_went_offline",
  "replica_failed", "replica_disk_filled", "unclean_leader_elected", "broker_started", "brokers_started",
];

/**
 * @param {State} state @param {string} kind @param {Severity} severity @param {PartitionView[]} some
 * @param {string} title @param {string} detail @param {{path: string, label: string}} view
 * @param {string} missing ids of the brokers that are not in sync, or of all replicas
 * @returns {Finding}
 */
function partitionFinding(state, kind, severity, some, title, detail, view, missing) {
  const partitions = some.map(({ name }) => name);
  const away = new Set(some.flatMap(({ replicas, isr }) => replicas.filter((id) => !isr.includes(id))));
  if (kind === "leaderless") for (const { replicas } of some) for (const id of replicas) away.add(id);
  return {
    ...finding(missing ? `${kind}-${missing}` : kind, severity, title, detail, view,
      chain(state.events, { partitions, brokers: away, names: PARTITION_STORY, until: ["isr_expanding"] })),
    kind,
    partitions,
  };
}

/** @param {State} state @param {{path: string, label: string}} view @returns {Finding[]} */
function uncleanFindings(state, view) {
  const recent = state.events.filter(({ name, at }) => name === "unclean_leader_elected" && state.at - at < UNCLEAN_FOR_MS);
  if (!recent.length) return [];
  const partitions = [...new Set(recent.map(({ facts }) => String(facts.partition)))];
  return [{
    ...finding("unclean", "critical", `${counted(partitions.length, "partition")} got a leader that was not in sync.`,
      `Records that only the old ISR had are lost in ${few(partitions)}.`, view,
      chain(state.events, { partitions, names: PARTITION_STORY })),
    partitions,
  }];
}

// ---- disks, throttles, stalls

/** @param {State} state @returns {Finding[]} */
function diskFindings(state) {
  /** @type {Map<number|null, string>} */
  const failed = new Map();
  for (const { name, broker } of state.events) {
    if (name === "log_directory_failed") failed.set(broker, "failed");
    else if (name === "log_directory_filled") failed.set(broker, failed.get(broker) ?? "is full");
    else if (name === "log_directory_space_regained" && failed.get(broker) === "is full") failed.delete(broker);
    else if (name === "broker_started") failed.delete(broker);
  }
  const names = ["log_directory_failed", "log_directory_filled", "disk_failed", "flush_failed", "replicas_taken_offline", "replica_disk_filled", "replicas_went_offline"];
  return [...failed].map(([broker, what]) => finding(`disk-${broker}`, "critical", `A disk of broker ${broker} ${what}.`,
    what === "failed" ? "Its replicas there are offline until the broker is restarted with a disk that works." : "Appends fail until there is space again.",
    { path: "cluster", label: "Cluster" },
    chain(state.events.filter((event) => event.broker === broker && names.includes(event.name)), { events: names })));
}

/** @param {State} state @returns {Finding[]} */
function throttleFindings(state) {
  const found = [];
  for (const { broker, name, facts } of all(state, "throttle")) {
    const id = `throttle-${broker}-${name}`;
    const view = { path: "throttles", label: "Throttles" };
    if (name === "replication") {
      const exceeded = Object.keys(facts).filter((kind) => facts[kind]?.exceeded).map((kind) => kind.replace("_", " "));
      if (exceeded.length) {
        found.push(finding(id, "note", `Broker ${broker} holds replication back by a throttle.`,
          `The limit is reached for: ${exceeded.join(", ")}. Replicas that are not in sync catch up more slowly.`, view, []));
      }
    } else if (facts.num_muted > 0) {
      const clients = [...new Set((facts.muted || []).map((/** @type {any} */ row) => String(row.client_id || row.client)))];
      found.push(finding(id, "note", `Broker ${broker} holds back ${counted(facts.num_muted, "connection")} by a quota.`,
        `The clients ${few(clients)} have used more than their limit.`, view, []));
    }
  }
  return found;
}

/** @param {State} state @returns {Finding[]} */
function stallFindings(state) {
  const recent = state.events.filter(({ name, at }) => name === "loop_stalled" && state.at - at < STALLS_FOR_MS);
  return [...byKey(recent, ({ broker, facts }) => String(broker ?? facts.broker))].map(([broker, events]) => {
    const worst = Math.max(...events.map(({ facts }) => Number(facts.stalled_ms) || 0));
    return finding(`stall-${broker}`, worst >= 1000 ? "warning" : "note", `The event loop of broker ${broker} stood still for up to ${worst} ms.`,
      `It happened ${counted(events.length, "time")} within a minute. Meanwhile the broker serves no request.`,
      { path: "requests", label: "Requests" }, chain(events, { events: ["loop_stalled"] }));
  });
}

// ---- helpers

/**
 * @param {string} id @param {Severity} severity @param {string} title @param {string} detail
 * @param {{path: string, label: string}} view @param {Link[]} links
 * @returns {Finding}
 */
export function finding(id, severity, title, detail, view, links) {
  return { id, kind: id.replace(/-\d.*$/, ""), severity, title, detail, view, chain: links };
}

/** @template T @param {Iterable<T>} rows @param {(row: T) => string} key @returns {Map<string, T[]>} */
function byKey(rows, key) {
  /** @type {Map<string, T[]>} */
  const groups = new Map();
  for (const row of rows) {
    const name = key(row);
    const group = groups.get(name);
    if (group) group.push(row);
    else groups.set(name, [row]);
  }
  return groups;
}
