/** Which messages the space-time diagram shows, and where. Pure. */

export const MOST_EDGES = 300;
const AUTO = 36; // messages that a span of its choice shows
export const SHORTEST_US = 200;
export const LONGEST_US = 60_000_000;
const CALM = new Set(["Heartbeat", "Fetch", "ApiVersions"]); // what goes on when nothing happens

/** @typedef {import("./model.js").Wire} Wire */
/** @typedef {{from: number, to: number}} Span */

/** Return the next of 1, 2, 5, 10 ... that is at least this. @param {number} us */
export function roundSpan(us) {
  const within = Math.max(SHORTEST_US, Math.min(LONGEST_US, us));
  const power = 10 ** Math.floor(Math.log10(within));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= within - 1) ?? LONGEST_US;
}

/** Return the span that shows the last some messages. @param {Wire[]} messages @param {number} now */
export function autoSpan(messages, now) {
  const first = messages.at(-AUTO) ?? messages[0];
  return roundSpan(first ? Math.max(2000, now - first.sent_us) : 10_000);
}

/** @param {Iterable<Wire>} wire @param {string} filter "", "calm" (leave out what is always there),
 * or an API @returns {Wire[]} by number */
export function filtered(wire, filter) {
  const all = [...wire].sort((a, b) => a.number - b.number);
  if (filter === "") return all;
  return all.filter(({ api }) => (filter === "calm" ? !CALM.has(api) : api === filter));
}

/** Return the messages of a span; of too many, the newest. @param {Wire[]} messages
 * @param {Span} span @param {number} now @returns {{shown: Wire[], hidden: number}} */
export function inSpan(messages, { from, to }, now) {
  const found = messages.filter(({ sent_us: sent, arrived_us: arrived, lost }) =>
    sent <= to && (arrived ?? (lost ? sent : now)) >= from);
  return { shown: found.slice(-MOST_EDGES), hidden: Math.max(0, found.length - MOST_EDGES) };
}

/** Return round times of a span, for its lines. @param {Span} span @param {number} about how many */
export function timeLines({ from, to }, about = 8) {
  const step = roundSpan((to - from) / about);
  const found = [];
  for (let us = Math.ceil(from / step) * step; us <= to; us += step) found.push(us);
  return found;
}

/** Return the number of the message before or after one, in a list. @param {Wire[]} shown
 * @param {number} number @param {number} by */
export function neighbour(shown, number, by) {
  const now = shown.findIndex((wire) => wire.number === number);
  const next = now < 0 ? shown.length - 1 : Math.max(0, Math.min(shown.length - 1, now + by));
  return shown[next]?.number ?? number;
}
