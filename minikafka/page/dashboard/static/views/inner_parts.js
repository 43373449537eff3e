/** What the views of the inside share: choosers, and bars. */

import { html } from "../parts/html.js";
import { BrokerName } from "../parts/svg.js";

/**
 * A few options of which one is chosen.
 *
 * @param {{label: string, options: {value: any, label: any}[], chosen: any,
 *   choose: (value: any) => void}} props
 */
export function Choice({ label, options, chosen, choose }) {
  return html`<span class="choice" role="group" aria-label=${label}>${options.map(
    ({ value, label: text }) => html`<button
    key=${value} class="small" aria-pressed=${value === chosen} onClick=${() => choose(value)}>${text}</button>`,
  )}</span>`;
}

/** @param {{brokers: number[], chosen: number, choose: (broker: number) => void}} props */
export function BrokerChooser({ brokers, chosen, choose }) {
  const options = brokers.map((broker) => ({
    value: broker,
    label: html`<${BrokerName} broker=${broker} />`,
  }));
  return html`<p><${Choice} label="Broker" options=${options} chosen=${chosen} choose=${choose} /></p>`;
}
