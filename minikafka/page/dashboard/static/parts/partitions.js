/**
 * Partitions and brokers as the page knows them, merged from what brokers report of their inside
 * and from what any Kafka says by its protocol. Made once for each state.
 *
 * @typedef {Object} Lane a replica
 * @property {number} broker
 * @property {boolean} leads
 * @property {boolean} inIsr
 * @property {boolean} alive its broker is there
 * @property {boolean} own its broker reports it; else only the leader or the protocol does
 * @property {number|null} logStart
 * @property {number|null} highWatermark
 * @property {number|null} lastStable
 * @property {number|null} logEnd
 * @property {number|null} knownEnd the log end of a follower as its leader knows it
 * @property {number|null} behind records between the leader's log end and this one's
 *
 * @typedef {Object} PartitionView
 * @property {string} name
 * @property {string} topic
 * @property {number} partition
 * @property {boolean} internal
 * @property {number|null} leader
 * @property {number|null} leaderEpoch
 * @property {number|null} partitionEpoch
 * @property {number[]} replicas
 * @property {number[]} isr
 * @property {number[]|null} proposedIsr
 * @property {Lane[]} lanes in the order of `replicas`
 *
 * @typedef {Object} BrokerView
 * @property {number} id
 * @property {"running"|"starting"|"stopping"|"silent"|"gone"|"unknown"} state
 * @property {boolean} controller
 * @property {number|null} epoch of the broker
 * @property {import("../reducer.js").Facts|undefined} node from the protocol
 * @property {import("../reducer.js").Facts|undefined} inside from the broker
 * @property {boolean} supervised the page may stop and start it
 */

import { all, naturally, one } from "../reducer.js";

/** @typedef {import("../reducer.js").State} State */

/** @template T @param {(state: State) => T} make @returns {(state: State) => T} */
function oncePerState(make) {
  /** @type {WeakMap<Map<string, any>, T>} */
  const made = new WeakMap();
  return (state) => {
    let found = made.get(state.entities);
    if (found === undefined) {
      found = make(state);
      made.set(state.entities, found);
    }
    return found;
  };
}

/** "my-topic-12" -> ["my-topic", 12]. @param {string} name @returns {[string, number]} */
export function splitName(name) {
  const dash = name.lastIndexOf("-");
  return [name.slice(0, dash), Number(name.slice(dash + 1))];
}

/** Return the id of the active controller, or null. @param {State} state @returns {number|null} */
export function controllerOf(state) {
  const active = all(state, "controller").find(({ facts, broker }) =>
    facts.active && isAlive(state, broker));
  const id = active?.broker ?? one(state, null, "cluster")?.controller ?? null;
  return id === null || id < 0 ? null : id;
}

/** Return the epoch of the active controller, or null where no broker reports it.
 * @param {State} state @returns {number|null} */
export function controllerEpoch(state) {
  const id = controllerOf(state);
  return id === null ? null : one(state, id, "controller")?.epoch ?? null;
}

/** True unless something says that the broker is gone or silent.
 * @param {State} state @param {number|null} broker */
export function isAlive(state, broker) {
  return !lostBrokers(state).has(broker);
}

/** Brokers that are gone, or whose debug listener does not respond any more. */
const lostBrokers = oncePerState((state) => {
  const nodes = new Map(all(state, "node", null).map(({ facts }) => [facts.id, facts]));
  /** @type {Set<number|null>} */
  const lost = new Set();
  for (const [broker, node] of nodes) if (!node.online) lost.add(broker);
  for (const { broker, facts } of all(state, "reachable")) {
    const node = nodes.get(broker);
    if (!facts.debug && (!node?.online || node.debug)) lost.add(broker);
  }
  return lost;
});

/** Return all brokers that anything mentions, by id. */
export const brokers = oncePerState((state) => {
  const ids = new Set(all(state, "node").map(({ name }) => Number(name)));
  for (const kind of ["broker", "reachable"]) {
    for (const { broker } of all(state, kind)) ids.add(/** @type {number} */ (broker));
  }
  for (const id of state.hello?.brokers_supervised ?? []) ids.add(id);
  const controller = controllerOf(state);
  return [...ids].sort((a, b) => a - b).map((id) => brokerView(state, id, controller));
});

/** @param {State} state @param {number} id @param {number|null} controller @returns {BrokerView} */
function brokerView(state, id, controller) {
  const node = one(state, null, "node", String(id));
  const inside = one(state, id, "broker");
  return {
    id,
    state: brokerState(state, id, node, inside),
    controller: id === controller,
    epoch: inside?.epoch ?? null,
    node,
    inside,
    supervised: (state.hello?.brokers_supervised ?? []).includes(id),
  };
}

/** @param {State} state @param {number} id @param {any} node @param {any} inside
 * @returns {BrokerView["state"]} */
function brokerState(state, id, node, inside) {
  if (node?.online === false) return "gone";
  const reachable = one(state, id, "reachable");
  // Another Kafka has no debug listener, and is not silent by that.
  if (reachable?.debug === false) return inside || !node || node.debug ? "silent" : "running";
  if (inside?.state === "STARTING") return "starting";
  if (inside && inside.state !== "RUNNING") return "stopping";
  return node?.online || inside ? "running" : "unknown";
}

/** Return the first 1,000 or so partitions, by name. @type {(state: State) => PartitionView[]} */
export const partitions = oncePerState((state) => {
  /** @type {Map<string, {topic: string, partition: number, internal: boolean, told: any,
   *   inside: import("../reducer.js").Entity[]}>} */
  const found = new Map();
  for (const { facts: topic } of all(state, "topic", null)) {
    for (const told of topic.partitions ?? []) {
      found.set(`${topic.name}-${told.partition}`, {
        topic: topic.name, partition: told.partition, internal: topic.internal, told, inside: [],
      });
    }
  }
  for (const entity of all(state, "partition")) {
    let known = found.get(entity.name);
    if (!known) {
      const [topic, partition] = splitName(entity.name);
      known = { topic, partition, internal: topic.startsWith("__"), told: null, inside: [] };
      found.set(entity.name, known);
    }
    known.inside.push(entity);
  }
  return [...found.entries()]
    .sort(([a], [b]) => naturally(a, b))
    .map(([name, { told, inside, ...place }]) => partitionView(state, name, place, told, inside));
});

/** @param {State} state @param {string} name @param {any} place @param {any} told by the protocol
 * @param {import("../reducer.js").Entity[]} inside what brokers report
 * @returns {PartitionView} */
function partitionView(state, name, place, told, inside) {
  const alive = inside.filter(({ broker }) => isAlive(state, broker));
  const newest = (/** @type {any[]} */ list) => list.reduce((best, entity) =>
    (!best || entity.facts.leader_epoch > best.facts.leader_epoch ? entity : best), null)?.facts;
  const leading = newest(alive.filter(({ facts }) => facts.is_leader));
  // A broker that leads knows best; else the newest epoch that anything mentions.
  const best = [leading, told, newest(alive), newest(inside)].filter(Boolean)
    .reduce((a, b) => ((b.leader_epoch ?? -1) > (a.leader_epoch ?? -1) ? b : a));
  const leader = best.leader === null || best.leader < 0 ? null : best.leader;
  const led = leading ?? newest(inside.filter(({ facts }) => facts.is_leader)); // followers know no ISR
  const isr = best.isr ?? told?.isr ?? led?.isr ?? [];
  const replicas = best.replicas ?? told?.replicas ?? [];
  const lanes = replicas.map((/** @type {number} */ broker) =>
    lane(state, broker, leader, isr, told, leading, inside));
  const end = lanes.find((/** @type {Lane} */ one) => one.leads)?.logEnd ?? null;
  for (const one of lanes) {
    one.behind = end === null || one.logEnd === null ? null : Math.max(0, end - one.logEnd);
  }
  return {
    name, ...place, leader, leaderEpoch: best.leader_epoch ?? null,
    partitionEpoch: best.partition_epoch ?? null, replicas, isr,
    proposedIsr: best.proposed_isr ?? null, lanes,
  };
}

/** @param {State} state @param {number} broker @param {number|null} leader @param {number[]} isr
 * @param {any} told @param {any} leading @param {import("../reducer.js").Entity[]} inside
 * @returns {Lane} */
function lane(state, broker, leader, isr, told, leading, inside) {
  const own = inside.find((entity) => entity.broker === broker)?.facts;
  const leads = broker === leader;
  const knownEnd = leads ? null : leading?.followers?.[String(broker)] ?? null;
  const facts = own ?? (leads && told ? { ...told, log_end_offset: told.high_watermark } : {});
  const offset = (/** @type {any} */ value) => (value === undefined || value < 0 ? null : value);
  return {
    broker, leads, inIsr: isr.includes(broker), alive: isAlive(state, broker),
    own: own !== undefined,
    logStart: offset(facts.log_start_offset),
    highWatermark: offset(facts.high_watermark),
    lastStable: offset(facts.last_stable_offset),
    logEnd: offset(facts.log_end_offset) ?? offset(knownEnd),
    knownEnd: offset(knownEnd), behind: null,
  };
}

/**
 * Return the partitions that are counted one by one. In a large cluster only some topics are
 * described, and `beyond` has the numbers of the others, also of those that a broker reports.
 * @param {State} state @returns {PartitionView[]}
 */
export function counted(state) {
  if (!one(state, null, "beyond")) return partitions(state);
  return partitions(state).filter(({ topic }) => one(state, null, "topic", topic));
}

/**
 * Return how many partitions a broker leads, holds, and has out of the ISR, of topics that are not
 * described. @param {State} state @param {number} id
 * @returns {{leads: number, replicas: number, behind: number}}
 */
export function beyondOf(state, id) {
  const known = one(state, null, "beyond")?.brokers[String(id)];
  return known ?? { leads: 0, replicas: 0, behind: 0 };
}

/**
 * Return how many partitions of topics that are not described are sick.
 * @param {State} state @param {"leaderless"|"under_replicated"} what
 */
function sickBeyond(state, what) {
  const beyond = one(state, null, "beyond");
  if (!beyond) return 0;
  const kinds = beyond.sick.filter((/** @type {any} */ row) => row.what === what);
  return kinds.reduce((/** @type {number} */ n, /** @type {any} */ row) => n + row.count, beyond[`more_${what}`]);
}

/**
 * Count what is not as it should be. Every count links to the view "why".
 * @param {State} state @returns {{name: string, count: number, bad: boolean}[]} without zeros
 */
export function oddStates(state) {
  const views = counted(state);
  const moving = new Set(all(state, "reassignment", null).map(({ name }) => name));
  const led = views.filter(({ leader }) => leader !== null);
  const under = led.filter(({ isr, replicas, name }) => isr.length < replicas.length && !moving.has(name)).length;
  const gone = brokers(state).filter((broker) => broker.state === "gone").length;
  const silent = brokers(state).filter((broker) => broker.state === "silent").length;
  const lagging = all(state, "consumer_group", null).filter(({ facts }) =>
    facts.lag > 0 && (facts.state === "Empty" || !facts.members?.length)).length;
  const found = [
    { name: "without a leader", count: views.length - led.length + sickBeyond(state, "leaderless"), bad: true },
    { name: "under-replicated", count: under + sickBeyond(state, "under_replicated"), bad: false },
    { name: gone === 1 ? "broker gone" : "brokers gone", count: gone, bad: true },
    { name: silent === 1 ? "broker silent" : "brokers silent", count: silent, bad: false },
    { name: `${lagging === 1 ? "group lags" : "groups lag"} without members`, count: lagging, bad: false },
  ];
  if (views.length && controllerOf(state) === null) {
    found.unshift({ name: "no controller", count: 1, bad: true });
  }
  return found.filter(({ count }) => count > 0);
}
