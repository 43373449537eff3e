/** Marks above the scrub slider: sentences, actions, warnings, checkpoints. */

import { html } from "../parts/html.js";
import { usOf } from "./model.js";

const MOST = 300;
const BAD = new Set(["warning", "error", "critical"]);

/** @typedef {{us: number, label: string, look: string}} Mark */

/** @param {import("./model.js").Model} model @param {import("../reducer.js").BrokerEvent[]} events
 * @param {import("./words.js").Words} words @returns {Mark[]} by time */
export function marksOf(model, events, words) {
  const { playback, beats } = model;
  if (!playback) return [];
  const marks = [
    ...beats.filter(({ type }) => type !== "check").map(({ t_us: us, number, text }) => (
      { us, label: `${words.sentence} ${number}: ${text.slice(0, 40)}`, look: "beat" })),
    ...playback.actions.map(([us, name]) => ({ us, label: `${words.action}: ${name}`, look: "acted" })),
    ...(playback.checkpoints ?? []).map((us) => ({ us, label: words.checkpoint, look: "checkpoint" })),
    ...events.filter(({ level }) => BAD.has(level)).slice(-MOST).map((event) => (
      { us: usOf(model, event), label: `${words.warning}: ${event.name}`, look: "bad" })),
  ];
  return marks.sort((a, b) => a.us - b.us);
}

/** @param {{marks: Mark[], end: number}} props */
export function Marks({ marks, end }) {
  const x = (/** @type {number} */ us) => (us / Math.max(1, end)) * 1000;
  return html`<svg class="landmarks learn-marks" viewBox="0 0 1000 10" preserveAspectRatio="none"
    aria-hidden="true">${marks.map(({ us, label, look }, i) => html`<line key=${i} class=${`${look}-mark`}
      x1=${x(us)} x2=${x(us)} y1=${look === "checkpoint" ? 7 : look === "bad" ? 0 : 3} y2="10"
      vector-effect="non-scaling-stroke"><title>${label}</title></line>`)}</svg>`;
}
