/** The marks of the stage: hosts and links. */

import { html } from "../parts/html.js";
import { BrokerMark, brokerColor, Node } from "../parts/svg.js";
import { conditionOf, spoken } from "./hosts.js";

const CROWN = "M-11 6-12-5-6-0.5 0-8l6 7.5 6-4.5-1 11z";

/** @param {{host: import("./hosts.js").Host, at: {x: number, y: number}, narrow: boolean,
 *   open: () => void}} props */
export function HostMark({ host, at, narrow, open }) {
  const { name, kind, id, alive, paused, isolated, disk, controller, epoch } = host;
  const conditions = conditionOf(host);
  const [w, h] = narrow ? [82, 58] : [116, 66];
  const label = [spoken(name), ...conditions].join(", ");
  const menu = (/** @type {Event} */ event) => {
    event.preventDefault();
    open();
  };
  const small = conditions.filter((word) => word !== "the controller").join(", ");
  return html`<${Node} label=${label} onClick=${open} onContextMenu=${menu} aria-haspopup="menu" data-entity=${`host|${name}`}
    transform=${`translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`}
    class=${`host ${kind} ${alive ? "" : "down"} ${paused ? "paused" : ""} ${isolated ? "isolated" : ""}`}>
    <rect class="host-box" x=${-w / 2} y=${-h / 2} width=${w} height=${h} rx="12"
      style=${id === null ? {} : { "--broker": brokerColor(id) }} />
    <g transform=${`translate(0 ${small ? -13 : -7})`}><${Sign} kind=${kind} id=${id} alive=${alive} /></g>
    <text class="host-name" text-anchor="middle" y=${small ? 11 : 19}>${spoken(name)}</text>
    ${small && html`<text class="host-state" text-anchor="middle" y="26">${small}</text>`}
    ${controller && html`<g class="host-crown" transform=${`translate(0 ${-h / 2 - 9})`}><path d=${CROWN} />
      ${epoch !== null && html`<text class="muted" x="17" y="4">epoch ${epoch}</text>`}</g>`}
    ${disk !== "ok" && html`<g class=${`host-disk ${disk}`} transform=${`translate(${w / 2 - 16} ${-h / 2 + 14})`} aria-hidden="true">
      <path d="M-8-5a8 3 0 0 1 16 0V6a8 3 0 0 1-16 0Z" /><text text-anchor="middle" y="5">${
        disk === "full" ? "■" : disk === "slow" ? "…" : "✕"}</text></g>`}
  <//>`;
}

/** @param {{kind: string, id: number|null, alive: boolean}} props */
function Sign({ kind, id, alive }) {
  if (id !== null) return html`<${BrokerMark} broker=${id} r=${9} hollow=${!alive} />`;
  return kind === "zookeeper"
    ? html`<path class="sign" d="M-9 8V-2L0-9 9-2V8ZM-3 8V1H3V8" />`
    : html`<path class="sign" d="M-11-8H11V5H-11ZM-5 9H5M0 5V9" />`;
}

const SIGNS = /** @type {Object<string, string>} */ ({ cut: "✕", slow: "…", held: "‖" });

/** @param {{link: import("./hosts.js").Link, from: {x: number, y: number}, to: {x: number, y: number},
 *   open: () => void}} props */
export function LinkMark({ link, from, to, open }) {
  const { one, other, state } = link;
  const label = `link ${spoken(one)} – ${spoken(other)}${state ? `, ${state}` : ""}`;
  const line = { x1: from.x, y1: from.y, x2: to.x, y2: to.y };
  const menu = (/** @type {Event} */ event) => {
    event.preventDefault();
    open();
  };
  return html`<${Node} label=${label} onClick=${open} onContextMenu=${menu} aria-haspopup="menu" class=${`link ${state}`}
    data-entity=${`link|${one}|${other}`}>
    <line ...${line} class="link-reach" /><line ...${line} class="link-line" />
    ${state && html`<g transform=${`translate(${(from.x + to.x) / 2} ${(from.y + to.y) / 2})`}><circle r="10" class="link-plate" />
      <text text-anchor="middle" y="4" class="link-sign">${SIGNS[state] ?? "!"}</text></g>`}
  <//>`;
}
