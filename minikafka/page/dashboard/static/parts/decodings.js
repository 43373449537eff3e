/**
 * How keys and values of a topic are decoded: a choice, which this browser remembers by topic.
 * @module
 */
import { html, useEffect, useState } from "./html.js";

const REMEMBERED = "minikafka.decodings";
const MOST_TOPICS = 300; // that are remembered; the oldest choices are forgotten
const AUTO = { key_as: "auto", value_as: "auto" };

/** @typedef {{key_as: string, value_as: string}} Decodings */

/** @returns {[string, Decodings][]} */
function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(REMEMBERED) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

/** Return how the keys and values of a topic were decoded last. @param {string} topic @returns {Decodings} */
export function decodingsOf(topic) {
  return kept().find(([name]) => name === topic)?.[1] ?? AUTO;
}

/** @param {string} topic @param {Decodings} chosen */
export function rememberDecodings(topic, { key_as, value_as }) {
  const others = kept().filter(([name]) => name !== topic);
  if (key_as !== AUTO.key_as || value_as !== AUTO.value_as) others.push([topic, { key_as, value_as }]);
  localStorage.setItem(REMEMBERED, JSON.stringify(others.slice(-MOST_TOPICS)));
}

/**
 * Choosers for key and value.
 * @param {{chosen: Decodings, choose: (chosen: Decodings) => void, api: any}} props
 */
export function DecodingFields({ chosen, choose, api }) {
  const [known, setKnown] = useState({ decodings: [{ name: "auto", label: "Automatic" }], registry: /** @type {string|null} */ (null) });
  useEffect(() => {
    api.get("decodings").then(setKnown, () => {}); // then only the automatic one is offered
  }, []);
  const field = (/** @type {"key_as"|"value_as"} */ name, /** @type {string} */ title) => html`<label class="field">
    <span>${title}</span>
    <select name=${name} value=${chosen[name]} onChange=${(/** @type {any} */ event) => choose({ ...chosen, [name]: event.target.value })}
      title=${known.registry ? `Schemas are read from ${known.registry}` : null}>
      ${withChosen(known.decodings, chosen[name]).map((one) => html`<option key=${one.name} value=${one.name}>${one.label}</option>`)}
    </select></label>`;
  return html`${field("key_as", "decode keys as")}${field("value_as", "decode values as")}`;
}

/** The choice of an address is offered, too. @param {{name: string, label: string}[]} known @param {string} name */
function withChosen(known, name) {
  return known.some((one) => one.name === name) ? known : [...known, { name, label: name }];
}
