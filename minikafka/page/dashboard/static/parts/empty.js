/** What a view says when it has nothing to show. */

import { all, one } from "../reducer.js";
import { html } from "./html.js";

/** @param {{title?: string, children: any}} props */
export function Empty({ title, children }) {
  return html`<div class="empty">${title && html`<p class="empty-title">${title}</p>`}
    <p>${children}</p></div>`;
}

/** Says that only a minikafka broker shows this, and how to switch it on.
 * @param {{state: import("../reducer.js").State, what: string}} props */
export function OnlyMinikafka({ state, what }) {
  const silent = all(state, "reachable").filter(({ facts }) => !facts.debug);
  if (state.hello?.minikafka === false) {
    return html`<${Empty} title=${`Only a minikafka broker shows ${what}.`}>
      These facts are inside a broker, and Kafka's protocol has no request for them.<//>`;
  }
  if (silent.length && silent.every(({ broker }) => one(state, null, "node", String(broker))?.debug === null)) {
    return html`<${Empty} title=${`No broker reports ${what}.`}>
      These facts are inside a broker. One shows them when its setting <code>debug.listener</code> names an address; those
      of <code>minikafka up --secure</code> have none, since everybody on their machine could read it.<//>`;
  }
  if (silent.length) {
    return html`<${Empty} title=${`No broker has reported ${what}.`}>
      The debug listeners of ${silent.map(({ broker }) => `broker ${broker}`).join(", ")} do not
      respond${silent[0].facts.reason ? ` (${silent[0].facts.reason})` : ""}. A broker has one when
      its setting <code>debug.listener</code> names an address.<//>`;
  }
  return html`<${Empty}>No broker has reported ${what} yet.<//>`;
}

/** True where at least one broker reports its inside. @param {import("../reducer.js").State} state */
export function hasInside(state) {
  return all(state, "broker").length > 0;
}
