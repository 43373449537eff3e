/** Pieces of pictures: shapes of brokers, named nodes, widths, sparklines. */

import { html, useLayoutEffect, useRef, useState } from "./html.js";

/** ColorBrewer's Set2; a broker has a colour and a shape, so colour never stands alone. */
export const PALETTE = [
  "#66c2a5", "#fc8d62", "#8da0cb", "#e78ac3", "#a6d854", "#ffd92f", "#e5c494", "#b3b3b3",
];
const SHAPES = ["circle", "square", "triangle", "diamond", "pentagon", "hexagon", "cross", "star"];

/** @param {number} broker its id */
export function brokerColor(broker) {
  return PALETTE[place(broker)];
}

/** @param {number} broker its id */
export function brokerShape(broker) {
  return SHAPES[place(broker)];
}

/** @param {number} broker */
function place(broker) {
  return (((broker - 1) % PALETTE.length) + PALETTE.length) % PALETTE.length;
}

/** Return the points of a shape around (0, 0). @param {string} shape @param {number} r */
function points(shape, r) {
  const sides = { triangle: 3, diamond: 4, pentagon: 5, hexagon: 6 }[shape];
  const corner = (/** @type {number} */ turn, /** @type {number} */ length) =>
    `${(length * Math.sin(turn * 2 * Math.PI)).toFixed(2)},${
      (-length * Math.cos(turn * 2 * Math.PI)).toFixed(2)}`;
  if (sides) {
    return Array.from({ length: sides }, (_, i) => corner(i / sides, r * 1.15)).join(" ");
  }
  const arms = shape === "star" ? 5 : 4; // a star, or a cross as a star with four arms
  return Array.from({ length: arms * 2 }, (_, i) =>
    corner(i / (arms * 2), i % 2 ? r * 0.5 : r * 1.25)).join(" ");
}

/** The mark of a broker, to put into an svg at (x, y). @param {{broker: number, x?: number,
 * y?: number, r?: number, hollow?: boolean}} props */
export function BrokerMark({ broker, x = 0, y = 0, r = 6, hollow = false }) {
  const color = brokerColor(broker);
  const paint = hollow
    ? { fill: "var(--surface)", stroke: color, "stroke-width": 2 }
    : { fill: color, stroke: "var(--mark-edge)", "stroke-width": 1 };
  const at = `translate(${x} ${y})`;
  const shape = brokerShape(broker);
  if (shape === "circle") return html`<circle transform=${at} r=${r} ...${paint} />`;
  if (shape === "square") {
    const side = r * 1.8;
    return html`<rect transform=${at} x=${-side / 2} y=${-side / 2} width=${side} height=${side}
      rx="1.5" ...${paint} />`;
  }
  return html`<polygon transform=${at} points=${points(shape, r)} ...${paint} />`;
}

/** The mark of a broker within text. @param {{broker: number, size?: number, hollow?: boolean}}
 * props */
export function BrokerIcon({ broker, size = 14, hollow }) {
  return html`<svg class="broker-icon" width=${size} height=${size} viewBox="-9 -9 18 18"
    aria-hidden="true"><${BrokerMark} broker=${broker} r=${6} hollow=${hollow} /></svg>`;
}

/** "Broker 2" with its mark. @param {{broker: number|null, label?: string}} props */
export function BrokerName({ broker, label }) {
  if (broker === null || broker === undefined || broker < 0) {
    return html`<span class="muted">no broker</span>`;
  }
  return html`<span class="broker-name"><${BrokerIcon} broker=${broker} />${
    label ?? `broker ${broker}`}</span>`;
}

/** A picture as a whole, with its accessible name. Its parts are `Node`s.
 * @param {{label: string, width: number, height: number, children: any, class?: string}} props */
export function Picture({ label, width, height, children, ...more }) {
  return html`<svg role="group" aria-label=${label} width=${width} height=${height}
    viewBox=${`0 0 ${width} ${height}`} class=${`picture ${more.class ?? ""}`}>${children}</svg>`;
}

/** A named part of a picture. With `onClick` it can be reached and pressed by keyboard.
 * @param {{label: string, onClick?: () => void, children: any, [more: string]: any}} props */
export function Node({ label, onClick, children, ...more }) {
  if (!onClick) {
    return html`<g role="img" aria-label=${label} ...${more}><title>${label}</title>${children}</g>`;
  }
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      event.stopPropagation();
      onClick();
    }
  };
  return html`<g role="button" tabindex="0" aria-label=${label} onClick=${onClick}
    onKeyDown=${press} ...${more}><title>${label}</title>${children}</g>`;
}

/** Return [ref, width]: the width in px of the element that has the ref, as it changes.
 * @param {number} [start] @returns {[any, number]} */
export function useWidth(start = 600) {
  const ref = useRef(null);
  const [width, setWidth] = useState(start);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => setWidth(Math.floor(element.clientWidth) || start);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** A small line of values over time; the newest is at the right.
 * @param {{values: number[], label: string, width?: number, height?: number, color?: string}}
 * props */
export function Sparkline({ values, label, width = 120, height = 28, color = "var(--accent)" }) {
  const top = Math.max(...values, 1e-9);
  const shown = values.length > 1 ? values : [0, ...values, 0].slice(0, 2);
  const step = width / (shown.length - 1);
  const place = (/** @type {number} */ value, /** @type {number} */ i) =>
    `${(i * step).toFixed(1)},${(height - 2 - (value / top) * (height - 5)).toFixed(1)}`;
  const line = shown.map(place).join(" ");
  return html`<svg role="img" aria-label=${label} class="sparkline" viewBox=${`0 0 ${width} ${height}`}
    preserveAspectRatio="none">
    <polygon points=${`0,${height} ${line} ${width},${height}`} fill=${color} opacity="0.25" />
    <polyline points=${line} fill="none" stroke=${color} stroke-width="1.5"
      vector-effect="non-scaling-stroke" />
  </svg>`;
}
