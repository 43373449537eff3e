/**
 * The state of the page: what all messages so far say. Pure: a state is never changed, `reduce`
 * returns the next one. Live brokers, recordings and the simulator send the same messages.
 *
 * @typedef {Object<string, any>} Facts
 * @typedef {{broker: number|null, kind: string, name: string, facts: Facts, at: number}} Entity
 * @typedef {{type: string, at: number, broker: number|null, [more: string]: any}} Message
 * @typedef {{at: number, broker: number, number: number, level: string, name: string,
 *   facts: Facts, t_us?: number}} BrokerEvent t_us: microseconds of a playback of learn mode
 * @typedef {Object<string, number> & {at: number}} Sample numbers of an entity at a time
 * @typedef {Object} State
 * @property {Facts|null} hello the message that began the stream
 * @property {number} at milliseconds of the newest message
 * @property {Map<string, Entity>} entities by `entityKey`
 * @property {BrokerEvent[]} events the last 2,000 of all brokers, oldest first
 * @property {Object<string, number>} missed events that were lost, by broker
 * @property {Map<string, Sample[]>} history the last samples of entities in `SERIES`
 * @property {Map<string, Step[]>} trails the last facts of entities in `TRAILS`
 * @property {{from: number, to: number}[]} gaps when no message came: nobody looked, or nothing happened
 * @property {Facts[]} acts what the page may do (from /api/acts)
 * @property {any} [access] who this browser is to the page (from /api/session)
 */

export const MAX_EVENTS = 2000;
export const MAX_SAMPLES = 180;
export const GAP_MS = 3000;
const MAX_GAPS = 50;
export const SAMPLE_MS = 900; // two samples of an entity are at least so far apart

/** Kinds of entities whose numbers are kept over time. @type {Object<string, string[]>} */
export const SERIES = {
  broker: ["messages_in", "bytes_in", "bytes_out"],
  consumer_group: ["lag", "end"],
};

/** Kinds whose facts are kept over time, whenever they change. */
export const TRAILS = new Set(["transaction", "txn"]);
export const MAX_TRAIL = 60;

/** @typedef {{at: number, facts: Facts|null}} Step facts of an entity since a time; null: it is gone */

/** @returns {State} */
export function emptyState() {
  return {
    hello: null, at: 0, entities: new Map(), events: [], missed: {}, history: new Map(),
    trails: new Map(), gaps: [], acts: [],
  };
}

/** @param {number|null} broker @param {string} kind @param {string} name */
export function entityKey(broker, kind, name) {
  return `${broker ?? ""}|${kind}|${name}`;
}

/** Return the state after one message. @param {State} state @param {Message} message */
export function reduce(state, message) {
  return reduceAll(state, [message]);
}

/**
 * Return the state after all messages. Copies the maps once, so a batch is much cheaper than its
 * messages one by one.
 * @param {State} state @param {Message[]} messages @returns {State}
 */
export function reduceAll(state, messages) {
  if (messages.length === 0) return state;
  const next = {
    ...state,
    entities: new Map(state.entities),
    events: state.events.slice(),
    missed: { ...state.missed },
    history: new Map(state.history),
    trails: new Map(state.trails),
  };
  for (const message of messages) apply(next, message);
  if (next.events.length > MAX_EVENTS) next.events.splice(0, next.events.length - MAX_EVENTS);
  return next;
}

/** @param {State} next @param {Message} message */
function apply(next, message) {
  if (next.at && message.at - next.at > GAP_MS && message.type !== "history") {
    next.gaps = [...next.gaps.slice(-MAX_GAPS + 1), { from: next.at, to: message.at }];
  }
  if (message.at > next.at) next.at = message.at;
  switch (message.type) {
    case "hello":
      next.hello = message;
      next.entities.clear(); // a snapshot of everything follows
      break;
    case "state":
      applyState(next, message);
      break;
    case "event":
      addEvent(next, message);
      break;
    case "missed":
      next.missed[String(message.broker)] =
        (next.missed[String(message.broker)] ?? 0) + message.count;
      break;
    case "history": // only `snapshotOf` makes it
      next.history = new Map(message.history);
      next.trails = new Map(message.trails);
      next.gaps = message.gaps;
      next.at = message.at;
      break;
    case "acts":
      next.acts = message.acts;
      break;
    case "access":
      next.access = message.access;
      break;
    // A newer page process may send types that this page does not know.
  }
}

/** @param {State} next @param {Message} message */
function applyState(next, { broker = null, reset, changed = [], removed = [], at }) {
  if (reset) {
    for (const [key, entity] of next.entities) {
      if (entity.broker === broker) next.entities.delete(key);
    }
  }
  for (const { kind, name, facts, at: changedAt = at } of changed) {
    const key = entityKey(broker, kind, name);
    next.entities.set(key, { broker, kind, name, facts, at: changedAt });
    if (kind in SERIES) addSample(next, key, kind, facts, changedAt, reset);
    if (TRAILS.has(kind)) addStep(next, key, facts, changedAt);
  }
  for (const { kind, name } of removed) {
    const key = entityKey(broker, kind, name);
    next.entities.delete(key);
    if (TRAILS.has(kind)) addStep(next, key, null, at);
  }
}

/** A new stream repeats facts that are here already: equal ones are no step.
 * @param {State} next @param {string} key @param {Facts|null} facts @param {number} at */
function addStep(next, key, facts, at) {
  const trail = next.trails.get(key) ?? [];
  const last = trail.at(-1);
  if (last && JSON.stringify(last.facts) === JSON.stringify(facts)) return;
  next.trails.set(key, [...trail.slice(-MAX_TRAIL + 1), { at, facts }]);
}

/** A new stream repeats the last events: those that are here already are skipped.
 * @param {State} next @param {Message} message */
function addEvent(next, { at, broker, number, level, name, facts, t_us: us }) {
  const { events } = next;
  for (let i = events.length - 1; i >= 0; i--) {
    const known = events[i];
    if (known.broker === broker) {
      if (known.at > at || (known.at === at && known.number >= number)) return;
      break;
    }
  }
  const event = { at, broker: /** @type {number} */ (broker), number, level, name, facts };
  let place = events.length; // a snapshot has all events of one broker before those of the next
  while (place > 0 && events[place - 1].at > at) place--;
  events.splice(place, 0, us === undefined ? event : { ...event, t_us: us });
}

/** A snapshot repeats facts with its own time: numbers that it has not changed are no new sample.
 * @param {State} next @param {string} key @param {string} kind @param {Facts} facts
 * @param {number} at @param {boolean} repeated */
function addSample(next, key, kind, facts, at, repeated) {
  const samples = next.history.get(key) ?? [];
  const last = samples.at(-1);
  if (last && at - last.at < SAMPLE_MS) return;
  if (last && repeated && SERIES[kind].every((name) => last[name] === (facts[name] ?? 0))) return;
  /** @type {Sample} */
  const sample = { at };
  for (const name of SERIES[kind]) sample[name] = facts[name] ?? 0;
  next.history.set(key, [...samples.slice(-MAX_SAMPLES + 1), sample]);
}

/** Return messages from which `reduceAll` makes this state, for a page that opens later.
 * @param {State} state @returns {Message[]} */
export function snapshotOf(state) {
  /** @type {Map<number|null, Entity[]>} */
  const brokers = new Map();
  for (const entity of state.entities.values()) {
    const known = brokers.get(entity.broker);
    if (known) known.push(entity);
    else brokers.set(entity.broker, [entity]);
  }
  /** @type {any[]} */
  const messages = state.hello ? [state.hello] : [];
  messages.push({
    type: "history", at: state.at, history: [...state.history], trails: [...state.trails],
    gaps: state.gaps,
  });
  for (const [broker, changed] of brokers) {
    const at = Math.max(...changed.map((entity) => entity.at));
    messages.push({ type: "state", at, broker, reset: true, changed, removed: [] });
  }
  for (const event of state.events) messages.push({ type: "event", ...event });
  for (const [broker, count] of Object.entries(state.missed)) {
    const known = broker === "null" ? null : Number(broker);
    messages.push({ type: "missed", at: state.at, broker: known, count });
  }
  return messages;
}

/** @type {WeakMap<Map<string, Entity>, Map<string, Entity[]>>} entities by kind, made when needed */
const byKind = new WeakMap();

/**
 * Return the entities of a kind, of one broker (null: of the whole cluster) or of all, by broker
 * and name.
 * @param {State} state @param {string} kind @param {number|null} [broker] @returns {Entity[]}
 */
export function all(state, kind, broker) {
  let kinds = byKind.get(state.entities);
  if (!kinds) {
    kinds = new Map();
    for (const entity of state.entities.values()) {
      const list = kinds.get(entity.kind);
      if (list) list.push(entity);
      else kinds.set(entity.kind, [entity]);
    }
    for (const list of kinds.values()) list.sort(byBrokerAndName);
    byKind.set(state.entities, kinds);
  }
  const found = kinds.get(kind) ?? [];
  return broker === undefined ? found : found.filter((entity) => entity.broker === broker);
}

/** @param {Entity} a @param {Entity} b */
function byBrokerAndName(a, b) {
  return (a.broker ?? -1) - (b.broker ?? -1) || naturally(a.name, b.name);
}

const collator = new Intl.Collator("en", { numeric: true });

/** Compare names so that t-2 comes before t-10. @param {string} a @param {string} b */
export function naturally(a, b) {
  return collator.compare(a, b);
}

/** Return the facts of one entity, or undefined.
 * @param {State} state @param {number|null} broker @param {string} kind @param {string} [name]
 * @returns {Facts|undefined} */
export function one(state, broker, kind, name = "") {
  return state.entities.get(entityKey(broker, kind, name))?.facts;
}

/** Return the trails of a kind, by broker and name, oldest step first.
 * @param {State} state @param {string} kind
 * @returns {{broker: number|null, name: string, steps: Step[]}[]} */
export function trails(state, kind) {
  const found = [];
  for (const [key, steps] of state.trails) {
    const [broker, ofKind, ...name] = key.split("|");
    if (ofKind !== kind) continue;
    found.push({ broker: broker === "" ? null : Number(broker), name: name.join("|"), steps });
  }
  return found.sort((a, b) => naturally(a.name, b.name));
}

/** Return the samples of an entity, oldest first.
 * @param {State} state @param {number|null} broker @param {string} kind @param {string} [name]
 * @returns {Sample[]} */
export function samples(state, broker, kind, name = "") {
  return state.history.get(entityKey(broker, kind, name)) ?? [];
}
