/** Which messages the space-time diagram shows, and where. Pure. */

export const MOST_EDGES = 300;
const AUTO = 30; // messages that a span of its choice shows
const IDLE_US = 1500; // a longer time without messages is folded
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
  return first ? Math.min(LONGEST_US, Math.max(2000, now - first.sent_us)) : 10_000;
}

/** Return the messages whose names can stand beside them: names that would overlap are left out.
 * @param {{number: number, x: number, y: number}[]} places @param {number} chosen it has a name
 * @returns {Set<number>} */
export function namedOnes(places, chosen) {
  const first = places.filter(({ number }) => number === chosen);
  /** @type {{number: number, x: number, y: number}[]} */
  const named = [];
  for (const one of [...first, ...places]) {
    if (!named.some(({ x, y }) => Math.abs(one.x - x) < 90 && Math.abs(one.y - y) < 11)) named.push(one);
  }
  return new Set(named.map(({ number }) => number));
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

/**
 * @typedef {{y: (us: number) => number, lines: number[], gaps: {us: number, lasts: number}[]}} TimeScale
 * y is 0 to 1 in the span; lines are times to draw, gaps are folded times
 */

/** Return a scale on which time passes evenly. @param {Span} span @returns {TimeScale} */
export function evenScale(span) {
  return { y: (us) => (us - span.from) / (span.to - span.from), lines: timeLines(span), gaps: [] };
}

/** Return a scale that folds times in which no message is sent or arrives, so that the slopes of
 * the others can be seen. @param {Wire[]} shown @param {Span} span @param {number} now @returns {TimeScale} */
export function foldedScale(shown, span, now) {
  const within = (/** @type {number} */ us) => us >= span.from && us <= span.to;
  const moments = shown.flatMap(({ sent_us: sent, arrived_us: arrived }) => [sent, arrived ?? sent]);
  const times = [...new Set([...moments, now].filter(within))].sort((a, b) => a - b);
  if (times.length < 2) return evenScale(span);
  const places = [0.4 * IDLE_US];
  const lines = [times[0]];
  const gaps = [];
  for (let i = 1; i < times.length; i++) {
    const lasts = times[i] - times[i - 1];
    const folded = lasts > 2 * IDLE_US;
    places.push(places[i - 1] + Math.max(40, folded ? IDLE_US : lasts));
    if (!folded) continue;
    lines.push(times[i]);
    gaps.push({ us: times[i - 1] + lasts / 2, lasts });
  }
  const whole = places[places.length - 1] + 0.4 * IDLE_US;
  return { y: (us) => placeIn(times, places, us) / whole, lines, gaps };
}

/** Interpolate. @param {number[]} times @param {number[]} places @param {number} us */
function placeIn(times, places, us) {
  const next = times.findIndex((time) => time >= us);
  if (next < 0) return places[places.length - 1] + Math.min(0.3 * IDLE_US, us - times[times.length - 1]);
  if (next === 0) return Math.max(0, places[0] - (times[0] - us));
  const part = (us - times[next - 1]) / (times[next] - times[next - 1]);
  return places[next - 1] + part * (places[next] - places[next - 1]);
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
