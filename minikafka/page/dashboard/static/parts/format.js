/** Numbers, bytes, durations and times as people read them. */

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** 1234567 -> "1,234,567"; null -> "–". @param {number|null|undefined} n */
export function number(n) {
  return n === null || n === undefined || Number.isNaN(n) ? "–" : whole.format(n);
}

/** 12345 -> "12.3k". @param {number|null|undefined} n */
export function brief(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const size = Math.abs(n);
  if (size < 1000) return short.format(n);
  if (size < 1e6) return `${short.format(n / 1e3)}k`;
  if (size < 1e9) return `${short.format(n / 1e6)}M`;
  return `${short.format(n / 1e9)}G`;
}

/** 1536 -> "1.5 KiB". @param {number|null|undefined} n */
export function bytes(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  let unit = 0;
  while (Math.abs(n) >= 1024 && unit < 4) {
    n /= 1024;
    unit++;
  }
  return `${short.format(n)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

/** 61500 -> "1 min 1 s"; 0.25 -> "250 µs".
 * @param {number|null|undefined} ms @returns {string} */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms > 0 && ms < 1) return `${short.format(ms * 1000)} µs`;
  if (ms < 1000) return `${short.format(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${short.format(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return parts(minutes, "min", Math.floor(seconds % 60), "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return parts(hours, "h", minutes % 60, "min");
  return parts(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** @param {number} a @param {string} unit @param {number} b @param {string} smaller */
function parts(a, unit, b, smaller) {
  return b ? `${a} ${unit} ${b} ${smaller}` : `${a} ${unit}`;
}

/** The time of a day: "14:03:07.120". @param {number|null|undefined} ms since 1970 */
export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  const date = new Date(ms);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const millis = String(date.getMilliseconds()).padStart(3, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${millis}`;
}

/** Date and time: "2026-11-25 14:03:07". @param {number|null|undefined} ms since 1970 */
export function dateTime(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const date = new Date(ms);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${time(ms).slice(0, 8)}`;
}

/** "1 min 5 s", "more than 2 h" where it is not known how much more, "none" for a group that keeps up.
 * @param {{lag_ms?: number|null, lag_exact?: boolean}} lag */
export function lagTime({ lag_ms: ms, lag_exact: exact }) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "none";
  const text = duration(ms < 1000 ? ms : Math.round(ms / 1000) * 1000);
  return exact === false ? `more than ${text}` : text;
}

/** How long ago, to the newest message of the page. @param {number} at @param {number} now */
export function ago(at, now) {
  return now - at < 1000 ? "now" : `${duration(Math.floor((now - at) / 1000) * 1000)} ago`;
}

/** "1 partition", "2 partitions". @param {number} n @param {string} one @param {string} [many] */
export function count(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** Name a few things, and how many more there are. @param {string[]} names */
export function few(names) {
  if (names.length <= 3) return names.join(", ");
  return `${names.slice(0, 3).join(", ")} and ${number(names.length - 3)} more`;
}

const QUIET_MS = 2500; // no sample for so long: the counters stood still, as only changes are sent

/** @typedef {{from: number, to: number}[]} Gaps when no message came at all */

/** The rate per second of a counter now, or null.
 * @param {{at: number, [name: string]: number}[]} samples @param {string} name
 * @param {number} [now] of the newest message @param {Gaps} [gaps] */
export function rate(samples, name, now, gaps) {
  return rates(samples, name, now, gaps).at(-1)?.value ?? null;
}

/** Rates per second of a counter: 0 where it stood still or fell (a restart); null, then the mean,
 * where nothing was received meanwhile, since nobody looked.
 * @param {{at: number, [name: string]: number}[]} samples @param {string} name
 * @param {number} [until] the time of the newest message, for a counter that stands still since
 * @param {Gaps} [gaps] @returns {{at: number, value: number|null}[]} */
export function rates(samples, name, until, gaps = []) {
  /** @type {{at: number, value: number|null}[]} */
  const found = [];
  for (let i = 1; i < samples.length; i++) {
    const { at } = samples[i];
    const before = samples[i - 1].at;
    const more = Math.max(0, samples[i][name] - samples[i - 1][name]);
    const mean = (more / Math.max(1, at - before)) * 1000;
    if (at - before <= QUIET_MS) {
      found.push({ at, value: mean });
    } else if (gaps.some(({ from, to }) => from < at && to > before)) {
      found.push({ at: before + 1000, value: null }, { at, value: mean });
    } else {
      found.push({ at: before + 1000, value: 0 }, { at: at - 1000, value: 0 }, { at, value: more });
    }
  }
  const last = samples.at(-1)?.at;
  if (last !== undefined && until !== undefined && until - last > QUIET_MS) {
    found.push({ at: last + 1000, value: 0 }, { at: until, value: 0 });
  }
  return found;
}
