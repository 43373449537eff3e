/** The score of the playground: for how long the cluster has kept every acknowledged record. */

import { html } from "../parts/html.js";
import { clockText } from "./pace.js";

/** Facts of a score by their names; a list shows its entries.
 * @param {{playback: import("./model.js").Playback|null, words: import("./words.js").Words}} props */
export function Score({ playback, words }) {
  const score = playback?.score;
  if (!score) return null;
  const { violations = [], ...others } = score;
  return html`<section class="score card" aria-label=${words.playground}>
    <h3>${words.playground}</h3>
    <dl class="inner-facts">${Object.entries(others).map(([name, value]) => html`<dt key=${name}>${
      name.replace(/_us$/, "").replaceAll("_", " ")}</dt><dd>${
      name.endsWith("_us") ? clockText(value) : shown(value)}</dd>`)}</dl>
    ${violations.length > 0 && html`<p class="bad notice" role="alert"><b>${words.violations}</b></p>
      <ul class="violations">${violations.map((/** @type {any} */ one, /** @type {number} */ i) =>
        html`<li key=${i}>${one.t_us === undefined ? "" : `${clockText(one.t_us)}: `}${shown({ ...one, t_us: "" })}</li>`)}</ul>`}
  </section>`;
}

/** @param {any} value @returns {string} */
function shown(value) {
  if (Array.isArray(value)) return value.map(shown).join(", ") || "–";
  if (value === null || value === undefined) return "–";
  if (typeof value === "object") return Object.values(value).map(shown).join(" ");
  return String(value);
}
