/** A button that does something to the cluster, with the command line that does the same. */

import { html } from "./html.js";

/**
 * @param {Object} props
 * @param {any} props.api
 * @param {import("../reducer.js").State} props.state
 * @param {string} props.act its name in /api/acts, e.g. "broker-kill"
 * @param {Object<string, any>} [props.args] arguments that are known already
 * @param {string} [props.label] default: the act's title
 * @param {string} [props.className]
 */
export function ActButton({ state, act, label, className = "small" }) {
  if (!state.hello?.live) return null;
  return html`<button class=${className} disabled>${label ?? act}</button>`;
}
