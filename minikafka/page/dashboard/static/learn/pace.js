/** Paces: how many microseconds of the cluster pass in a millisecond of the reader. Pure. */

export const SLOWEST = 1;
export const FASTEST = 1_000_000;
export const REAL_TIME = 1000;
export const STEPS = 60; // of the slider; ten make a pace ten times as fast

/** @param {number} pace @returns {number} the place on a logarithmic slider, 0 to STEPS */
export function placeOf(pace) {
  return Math.round(Math.log10(within(pace) / SLOWEST) * 10);
}

/** @param {number} place @returns {number} */
export function paceAt(place) {
  const exact = SLOWEST * 10 ** (place / 10);
  const digits = 10 ** Math.max(0, Math.floor(Math.log10(exact)) - 1);
  return within(Math.round(exact / digits) * digits);
}

/** @param {number} pace */
export function within(pace) {
  return Math.max(SLOWEST, Math.min(FASTEST, pace));
}

/** "1 ms of the cluster takes 20 ms"; faster than real time, a second is the measure.
 * @param {number} pace @param {import("./words.js").Words} words */
export function paceText(pace, words) {
  if (Math.abs(pace / REAL_TIME - 1) < 0.02) return words.realTime;
  if (pace < REAL_TIME) return words.takes("1 ms", spoken(REAL_TIME / pace));
  return words.takes("1 s", spoken((1000 * REAL_TIME) / pace));
}

/** @param {number} ms */
function spoken(ms) {
  if (ms >= 1000) return `${short(ms / 1000)} s`;
  return ms >= 1 ? `${short(ms)} ms` : `${short(ms * 1000)} µs`;
}

/** @param {number} n */
function short(n) {
  return n >= 10 ? String(Math.round(n)) : String(Math.round(n * 10) / 10);
}

/** 12345678 -> "12.345 678 s": seconds, milliseconds, microseconds. @param {number} us */
export function clockText(us) {
  const whole = Math.round(us);
  const rest = String(whole % 1_000_000).padStart(6, "0");
  return `${Math.floor(whole / 1_000_000)}.${rest.slice(0, 3)} ${rest.slice(3)} s`;
}
