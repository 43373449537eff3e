/** The picture of the space-time diagram. One edge can be reached by Tab; arrows go to the others. */

import { duration } from "../parts/format.js";
import { html, useEffect, useRef } from "../parts/html.js";
import { brokerColor, BrokerMark, useWidth } from "../parts/svg.js";
import { markOf } from "./api_marks.js";
import { describe } from "./flights.js";
import { spoken } from "./hosts.js";
import { clockText } from "./pace.js";
import { namedOnes, neighbour } from "./wire_model.js";

const HEAD = 40;

/** @typedef {import("./model.js").Wire} Wire */
/** @typedef {{x: (host: string) => number, y: (us: number) => number, now: number}} Places */

/**
 * @param {{hosts: import("./hosts.js").Host[], shown: Wire[], events: any[], span: {from: number, to: number},
 *   now: number, scale: import("./wire_model.js").TimeScale, chosen: number, choose: (number: number) => void, move: (by: number) => void}} props
 */
export function Diagram({ hosts, shown, events, span, now, scale, chosen, choose, move }) {
  const [box, width] = useWidth(700);
  const narrow = width < 520;
  const left = narrow ? 20 : 96;
  const height = Math.max(300, Math.min(680, innerHeight - 370));
  const column = (width - left - (narrow ? 32 : 84)) / Math.max(1, hosts.length - 1);
  const columns = new Map(hosts.map(({ name }, i) => [name, left + (narrow ? 12 : 32) + i * column]));
  const x = (/** @type {string} */ host) => columns.get(host) ?? left;
  const y = (/** @type {number} */ us) => HEAD + scale.y(us) * (height - HEAD);
  const svg = useRef(/** @type {SVGSVGElement|null} */ (null));
  useWheel(svg, move);
  const reachable = shown.some(({ number }) => number === chosen) ? chosen : shown.at(-1)?.number;
  const press = (/** @type {KeyboardEvent} */ event) => {
    const by = /** @type {Object<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 })[event.key];
    const pan = /** @type {Object<string, number>} */ ({ PageDown: 0.5, PageUp: -0.5 })[event.key];
    if (pan) move(pan);
    else if (by) {
      const next = neighbour(shown, Number(reachable), by);
      choose(next);
      /** @type {SVGElement|null|undefined} */ (svg.current?.querySelector(`[data-number="${next}"]`))?.focus();
    } else return;
    event.preventDefault();
  };
  const places = { x, y, now };
  const named = namedOnes(shown.map((wire) => ({ number: wire.number, ...nameOf(wire, places) })), chosen);
  let lowest = -Infinity; // lines that are too close have no time beside them
  const lines = scale.lines.filter((us) => us >= 0).map((us) => {
    const apart = y(us) - lowest > 15;
    if (apart) lowest = y(us);
    return { us, apart };
  });
  return html`<div ref=${box} class="wire-box">
    <svg ref=${svg} role="group" aria-label="Messages between the hosts over time" class="picture wire-picture" width=${width}
      height=${height + 6} viewBox=${`0 0 ${width} ${height + 6}`} onKeyDown=${press}>
      <clipPath id="wire-clip"><rect x="0" y=${HEAD} width=${width} height=${height - HEAD + 6} /></clipPath>
      ${lines.map(({ us, apart }) => html`<g key=${us} aria-hidden="true"><line class="grid" x1=${left} x2=${width} y1=${y(us)} y2=${y(us)} />
        ${!narrow && apart && html`<text class="muted tick" x="0" y=${y(us) + 4}>${clockText(us)}</text>`}</g>`)}
      ${hosts.map((host) => html`<${Column} key=${host.name} host=${host} x=${x(host.name)} bottom=${height} narrow=${narrow} />`)}
      ${scale.gaps.map(({ us, lasts }) => html`<g key=${us} aria-hidden="true"><line class="wire-gap" x1=${left} x2=${width} y1=${y(us)} y2=${y(us)} />
        ${!narrow && html`<text class="muted wire-gap-text" x=${width} text-anchor="end" y=${y(us) + 4}>${duration(lasts / 1000)}</text>`}</g>`)}
      <g clip-path="url(#wire-clip)">
        ${now <= span.to && html`<line class="wire-now" x1=${left} x2=${width} y1=${y(now)} y2=${y(now)} />`}
        ${events.map((event, i) => html`<${EventTick} key=${i} event=${event} x=${x(event.broker === null ? "client" : `broker-${event.broker}`)} y=${y(event.us)} />`)}
        ${shown.map((wire) => html`<${Edge} key=${wire.number} wire=${wire} places=${places} chosen=${wire.number === chosen}
          reachable=${wire.number === reachable} named=${named.has(wire.number)} choose=${choose} />`)}
      </g>
    </svg></div>`;
}

/** The wheel moves through time. @param {{current: SVGSVGElement|null}} svg @param {(by: number) => void} move */
function useWheel(svg, move) {
  const last = useRef(move);
  last.current = move;
  useEffect(() => {
    const turn = (/** @type {WheelEvent} */ event) => {
      if (event.ctrlKey || !event.shiftKey) return; // the page scrolls as usual
      event.preventDefault();
      last.current((event.deltaY || event.deltaX) / 800);
    };
    const element = svg.current;
    element?.addEventListener("wheel", turn, { passive: false });
    return () => element?.removeEventListener("wheel", turn);
  }, []);
}

/** @param {{host: import("./hosts.js").Host, x: number, bottom: number, narrow: boolean}} props */
function Column({ host, x, bottom, narrow }) {
  const { name, id, kind, alive } = host;
  const text = narrow ? { client: "C", zookeeper: "ZK", broker: String(id) }[kind] : spoken(name);
  return html`<g class=${`wire-host ${alive ? "" : "down"}`} role="img" aria-label=${`${spoken(name)}${alive ? "" : ", down"}`}
    data-entity=${`host|${name}`}>
    <line x1=${x} x2=${x} y1=${HEAD} y2=${bottom} style=${{ stroke: id === null ? "var(--line-strong)" : brokerColor(id) }} />
    ${id !== null && html`<${BrokerMark} broker=${id} x=${x} y=${10} r=${6} hollow=${!alive} />`}
    <text text-anchor="middle" x=${x} y="32">${text}</text></g>`;
}

/** @param {{event: any, x: number, y: number}} props */
function EventTick({ event, x, y }) {
  const label = `${event.name} of ${event.broker === null ? "the client" : `broker ${event.broker}`} at ${clockText(event.us)}`;
  return html`<g role="img" aria-label=${label} class=${`wire-event ${event.level}`}><title>${label}</title>
    <path d=${`M${x - 4} ${y}h8`} /></g>`;
}

/** Where a message's name is: beside its sender. @param {Wire} wire @param {Places} places */
function nameOf({ source, target, sent_us: sent }, { x, y }) {
  return { x: x(source) + Math.sign(x(target) - x(source) || 1) * 10, y: y(sent) - 4 };
}

/** @param {{wire: Wire, places: Places, chosen: boolean, reachable: boolean, named: boolean,
 *   choose: (number: number) => void}} props */
function Edge({ wire, places, chosen, reachable, named, choose }) {
  const { x, y, now } = places;
  const { source, target, api, request, sent_us: sent, arrived_us: arrived, lost, held, number } = wire;
  const { color } = markOf(api);
  const part = lost ? 0.5 : held ? 0.7 : arrived === null ? 0.85 : 1;
  const from = { x: x(source), y: y(sent) };
  const end = arrived ?? Math.max(sent, Math.min(now, sent + 1e9));
  const to = { x: from.x + (x(target) - from.x) * part, y: lost ? from.y + 12 : y(end) };
  const turn = (Math.atan2(to.y - from.y, to.x - from.x) * 180) / Math.PI;
  const line = { x1: from.x, y1: from.y, x2: to.x, y2: to.y };
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    choose(number);
  };
  return html`<g role="button" tabindex=${reachable ? 0 : -1} aria-label=${describe(wire)} aria-pressed=${chosen} data-number=${number}
    onClick=${() => choose(number)} onKeyDown=${press} style=${{ "--api": color }}
    class=${`wire-edge ${request ? "request" : "response"} ${lost ? "lost" : ""} ${held ? "held" : ""} ${chosen ? "chosen" : ""} ${arrived === null && !lost && !held ? "flying" : ""}`}>
    <title>${describe(wire)}</title>
    <line ...${line} class="wire-reach" /><line ...${line} class="wire-line" />
    ${lost ? html`<path d="M-5-5 5 5M5-5-5 5" class="wire-cross" transform=${`translate(${to.x} ${to.y})`} />`
      : arrived !== null && html`<path d="M0 0-8-3.5V3.5Z" class="wire-tip" transform=${`translate(${to.x} ${to.y}) rotate(${turn.toFixed(1)})`} />`}
    ${named && html`<text class="wire-name" ...${nameOf(wire, places)}
      text-anchor=${to.x < from.x ? "end" : "start"}>${api} ${wire.correlation_id}</text>`}
  </g>`;
}
