/**
 * The chain of events that led to an odd state: those of the log that are about the same subjects,
 * oldest first, so that the newest cause is last. Repeats become one link with a count.
 */

import { sentence, subjects } from "./event_stories.js";

/** @typedef {import("./event_stories.js").LogEvent} LogEvent */
/**
 * @typedef {{at: number, broker: number|null, name: string, level: string, says: string,
 *   count: number, partitions: string[]}} Link `at` of its newest event; `partitions` that its
 *   events are about
 * @typedef {{partitions?: Iterable<string>, brokers?: Iterable<number>, groups?: Iterable<string>,
 *   transactions?: Iterable<string>, topics?: Iterable<string>, events?: Iterable<string>,
 *   names?: Iterable<string>, until?: Iterable<string>, quietMs?: number}} Wanted
 *   subjects of which an event must have one; `events` are names that belong to the chain whatever
 *   they are about; `names` are the only names that may (default: all); the chain begins after the
 *   newest event of `until` that is about the subjects, since that was the end of an older story,
 *   or after the newest pause of `quietMs`
 */

const MAX_LINKS = 12;

// What passes all the time and causes nothing.
const NOISE = new Set(["metadata_updated", "features_read", "config_changes_received"]);
// No trouble begins with these, though they may be a step of its story.
const RECOVERIES = new Set([
  "broker_started",
  "brokers_started",
  "broker_connected",
  "session_opened",
  "broker_registered",
  "old_registration_removed",
]);
const TROUBLED = new Set(["OfflinePartition", "NonExistentPartition"]);

/**
 * @param {LogEvent[]} events oldest first in each broker's log
 * @param {Wanted} wanted
 * @returns {Link[]}
 */
export function chain(events, wanted) {
  const only = wanted.names ? new Set(wanted.names) : null;
  const always = new Set(wanted.events || []);
  const until = new Set(wanted.until || []);
  const sets = wantedSets(wanted);
  /** @type {LogEvent[]} */
  let found = [];
  for (const event of byTime(events)) {
    if (isNoise(event)) continue;
    const concerns = isAbout(event, sets);
    if (concerns && until.has(event.name)) {
      found = [];
      continue;
    }
    if (!(concerns && (!only || only.has(event.name))) && !always.has(event.name)) continue;
    const before = found.at(-1);
    if (before && wanted.quietMs && event.at - before.at > wanted.quietMs) found = [];
    found.push(event);
  }
  const first = found.findIndex(({ name }) => !RECOVERIES.has(name));
  return links(first > 0 ? found.slice(first) : found).slice(-MAX_LINKS);
}

/** @param {LogEvent} event */
function isNoise({ name, facts }) {
  return NOISE.has(name) || (name === "partition_state_changed" && !TROUBLED.has(facts.after));
}

/** Logs of several brokers arrive one after the other. @param {LogEvent[]} events */
function byTime(events) {
  for (let i = 1; i < events.length; i++) {
    if (events[i].at < events[i - 1].at) return events.slice().sort((a, b) => a.at - b.at);
  }
  return events;
}

/** @param {Wanted} wanted */
function wantedSets(wanted) {
  const set = (/** @type {any} */ values) => new Set(values || []);
  return {
    partitions: set(wanted.partitions),
    brokers: set(wanted.brokers),
    groups: set(wanted.groups),
    transactions: set(wanted.transactions),
    topics: set(wanted.topics),
  };
}

/** @param {LogEvent} event @param {Object<string, Set<any>>} sets */
function isAbout(event, sets) {
  const about = /** @type {Object<string, any[]>} */ (subjects(event));
  for (const kind in about) {
    for (const subject of about[kind]) if (sets[kind].has(subject)) return true;
  }
  return false;
}

/** @param {LogEvent[]} events @returns {Link[]} */
function links(events) {
  /** @type {Map<string, {event: LogEvent, count: number, partitions: Set<string>}>} */
  const found = new Map();
  for (const event of events) {
    const about = subjects(event);
    const key = [event.name, event.broker, about.brokers, about.groups, about.transactions].join(
      "|",
    );
    const known = found.get(key) ?? { event, count: 0, partitions: new Set() };
    found.delete(key); // a repeat moves to its newest place
    found.set(key, known);
    known.event = event;
    known.count += 1;
    for (const partition of about.partitions ?? []) known.partitions.add(partition);
  }
  return [...found.values()].map(({ event, count, partitions }) => ({
    at: event.at,
    broker: event.broker,
    name: event.name,
    level: event.level,
    says: sentence(event),
    count,
    partitions: [...partitions],
  }));
}
