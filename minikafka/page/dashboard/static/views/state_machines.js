/**
 * The controller's two state machines: which transitions there are, where they are drawn, and which
 * have happened lately. The tables are those of `minikafka/core/controller/states.py`; a test
 * compares them.
 */


/**
 * @typedef {{name: string, x: number, y: number, about: string}} MachineState
 * @typedef {{from: string, to: string, bend?: number}} Edge `bend` in px to the right of its direction
 * @typedef {{title: string, noun: string, width: number, height: number, states: MachineState[], edges: Edge[]}} Machine
 * @typedef {{time_ms: number, controller_epoch: number, partition: string, replica: number|null,
 *   before: string, after: string, leader: number|null, leader_epoch: number|null,
 *   isr: number[]|null}} Transition
 * @typedef {{count: number, lastMs: number, subjects: string[]}} Heat
 */

/** @type {Machine} */
export const PARTITION_MACHINE = {
  title: "The state machine of partitions",
  noun: "partition",
  width: 700,
  height: 260,
  states: [
    { name: "NonExistentPartition", x: 95, y: 130, about: "never made, or deleted" },
    { name: "NewPartition", x: 300, y: 55, about: "has replicas, never had a leader" },
    { name: "OnlinePartition", x: 560, y: 55, about: "has a leader" },
    { name: "OfflinePartition", x: 560, y: 205, about: "had a leader, and lost it" },
  ],
  edges: [
    { from: "NonExistentPartition", to: "NewPartition", bend: 14 },
    { from: "NewPartition", to: "OnlinePartition" },
    { from: "NewPartition", to: "OfflinePartition" },
    { from: "OnlinePartition", to: "OnlinePartition" },
    { from: "OnlinePartition", to: "OfflinePartition", bend: 26 },
    { from: "OfflinePartition", to: "OnlinePartition", bend: 26 },
    { from: "OfflinePartition", to: "OfflinePartition" },
    { from: "OfflinePartition", to: "NonExistentPartition", bend: 18 },
  ],
};

/** @type {Machine} */
export const REPLICA_MACHINE = {
  title: "The state machine of replicas",
  noun: "replica",
  width: 800,
  height: 370,
  states: [
    { name: "NonExistentReplica", x: 95, y: 55, about: "not in the assignment any more" },
    { name: "NewReplica", x: 300, y: 55, about: "created by a reassignment or with its topic" },
    { name: "OnlineReplica", x: 540, y: 55, about: "may lead or follow" },
    { name: "OfflineReplica", x: 540, y: 195, about: "its broker is dead, or it was stopped" },
    {
      name: "ReplicaDeletionIneligible",
      x: 690,
      y: 315,
      about: "deletion failed, or cannot be tried now",
    },
    {
      name: "ReplicaDeletionStarted",
      x: 370,
      y: 315,
      about: "its broker was sent StopReplica with deletion",
    },
    { name: "ReplicaDeletionSuccessful", x: 105, y: 315, about: "its broker has deleted it" },
  ],
  edges: [
    { from: "NonExistentReplica", to: "NewReplica" },
    { from: "NewReplica", to: "OnlineReplica" },
    { from: "NewReplica", to: "OfflineReplica" },
    { from: "OnlineReplica", to: "OnlineReplica" },
    { from: "OnlineReplica", to: "OfflineReplica", bend: 26 },
    { from: "OfflineReplica", to: "OnlineReplica", bend: 26 },
    { from: "OfflineReplica", to: "OfflineReplica" },
    { from: "ReplicaDeletionIneligible", to: "OnlineReplica", bend: 60 },
    { from: "ReplicaDeletionIneligible", to: "OfflineReplica", bend: 14 },
    { from: "OfflineReplica", to: "ReplicaDeletionIneligible", bend: 14 },
    { from: "OfflineReplica", to: "ReplicaDeletionStarted" },
    { from: "ReplicaDeletionStarted", to: "ReplicaDeletionSuccessful" },
    { from: "ReplicaDeletionStarted", to: "ReplicaDeletionIneligible" },
    { from: "ReplicaDeletionSuccessful", to: "NonExistentReplica" },
  ],
};

const BOX = { width: 150, height: 40 };
const RECENT_MS = 5000;
const SAME_MS = 50; // within which a transition was logged
const LOGGED = new Set(["partition_state_changed", "offline_partition_leader_elected"]);

/** @param {string} from @param {string} to */
export function edgeKey(from, to) {
  return `${from} > ${to}`;
}

/**
 * Return how often each transition occurs among the last ones, and when it was last.
 *
 * @param {Transition[]} transitions
 * @returns {Map<string, Heat>}
 */
export function heat(transitions) {
  /** @type {Map<string, Heat>} */
  const found = new Map();
  for (const row of transitions) {
    const key = edgeKey(row.before, row.after);
    const known = found.get(key) || { count: 0, lastMs: 0, subjects: [] };
    known.count += 1;
    known.lastMs = Math.max(known.lastMs, row.time_ms);
    if (known.subjects.length < 3) known.subjects.push(subject(row));
    found.set(key, known);
  }
  return found;
}

/**
 * Return the last transitions, newest first, with older ones of partitions from the controller's log:
 * a failover moves so many replicas that no partition is left among the last transitions.
 *
 * @param {Transition[]} transitions newest first
 * @param {import("./event_stories.js").LogEvent[]} events
 * @param {number|null} broker the controller
 * @returns {Transition[]}
 */
export function withEvents(transitions, events, broker) {
  const oldest = transitions.at(-1)?.time_ms ?? Infinity;
  const name = (/** @type {any} */ row) =>
    `${row.partition} ${row.before} ${row.after} ${row.leader_epoch ?? ""}`;
  const known = new Set(transitions.filter(({ replica }) => replica === null).map(name));
  const isOlder = (/** @type {import("./event_stories.js").LogEvent} */ event) =>
    event.broker === broker &&
    LOGGED.has(event.name) &&
    (event.at < oldest || (event.at < oldest + SAME_MS && !known.has(name(event.facts))));
  const older = events.filter(isOlder).map(({ at, facts }) => ({
    time_ms: at,
    controller_epoch: facts.epoch,
    partition: facts.partition,
    replica: null,
    before: facts.before,
    after: facts.after,
    leader: facts.leader ?? null,
    leader_epoch: facts.leader_epoch ?? null,
    isr: Array.isArray(facts.isr) ? facts.isr : null,
  }));
  return [...transitions, ...older.reverse()];
}

/** @param {Transition} row */
export function subject(row) {
  return row.replica === null || row.replica === undefined
    ? row.partition
    : `${row.partition} on broker ${row.replica}`;
}

/** "recent", "seen" or "never": how an edge is drawn. @param {Heat|undefined} heated @param {number} now */
export function warmth(heated, now) {
  if (!heated) return "never";
  return now - heated.lastMs <= RECENT_MS ? "recent" : "seen";
}

/** @typedef {{path: string, tip: {x: number, y: number, turn: number}, label: {x: number, y: number}}} Drawn */

/**
 * Return how an edge is drawn: a curve between the boxes, where its tip is and how it is turned, and
 * the place of its number.
 *
 * @param {Machine} machine @param {Edge} edge
 * @returns {Drawn}
 */
export function drawn(machine, edge) {
  const a = state(machine, edge.from);
  const b = state(machine, edge.to);
  if (a === b) return loop(a);
  const bend = edge.bend ?? 0;
  const length = Math.hypot(b.x - a.x, b.y - a.y);
  const right = { x: -(b.y - a.y) / length, y: (b.x - a.x) / length };
  const middle = {
    x: (a.x + b.x) / 2 + right.x * bend * 2,
    y: (a.y + b.y) / 2 + right.y * bend * 2,
  };
  // Edges that bend start beside the middle of the box, so that a pair does not cross.
  const shift = { x: right.x * Math.min(Math.abs(bend), 16) * Math.sign(bend), y: 0 };
  const start = border({ x: a.x + shift.x, y: a.y }, a, middle, 0);
  const end = border({ x: b.x + shift.x, y: b.y }, b, middle, 7);
  const turn = (Math.atan2(end.y - middle.y, end.x - middle.x) * 180) / Math.PI;
  const label = {
    x: (start.x + 2 * middle.x + end.x) / 4,
    y: (start.y + 2 * middle.y + end.y) / 4,
  };
  return {
    path: `M${r(start.x)} ${r(start.y)}Q${r(middle.x)} ${r(middle.y)} ${r(end.x)} ${r(end.y)}`,
    tip: { x: r(end.x), y: r(end.y), turn: r(turn) },
    label,
  };
}

/** @param {Machine} machine @param {string} name */
function state(machine, name) {
  const found = machine.states.find((one) => one.name === name);
  if (!found) throw new Error(`no state ${name}`);
  return found;
}

/** A transition from a state to itself: a loop at the right side. @param {MachineState} a @returns {Drawn} */
function loop(a) {
  const x = a.x + BOX.width / 2;
  return {
    path: `M${x} ${a.y - 11}C${x + 38} ${a.y - 22} ${x + 38} ${a.y + 22} ${x + 7} ${a.y + 12}`,
    tip: { x: x + 7, y: a.y + 12, turn: 197 },
    label: { x: x + 32, y: a.y },
  };
}

/**
 * Return where the line from `from`, inside the box around `box`, to `to` leaves the box, `away` px
 * outside.
 *
 * @param {{x: number, y: number}} from @param {{x: number, y: number}} box
 * @param {{x: number, y: number}} to @param {number} away
 */
function border(from, box, to, away) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const side = dx === 0 ? Infinity : (box.x + (Math.sign(dx) * BOX.width) / 2 - from.x) / dx;
  const top = dy === 0 ? Infinity : (box.y + (Math.sign(dy) * BOX.height) / 2 - from.y) / dy;
  const t = Math.min(side, top);
  const length = Math.hypot(dx, dy) || 1;
  return { x: from.x + dx * t + (dx / length) * away, y: from.y + dy * t + (dy / length) * away };
}

/** @param {number} value */
function r(value) {
  return Math.round(value * 10) / 10;
}

export { BOX };
