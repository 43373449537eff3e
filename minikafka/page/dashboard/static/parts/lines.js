/**
 * Lines over time, drawn by uPlot on a canvas. Its table twin and its name say the same in words.
 * @module
 */
import uPlot from "../vendor/uplot.js";
import { time } from "./format.js";
import { html, useEffect, useRef } from "./html.js";

/** ColorBrewer's Dark2 and Set2: dark lines on light, light lines on dark. */
const LIGHT = ["#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#666666", "#0b6fa4"];
const DARK = ["#66c2a5", "#fc8d62", "#a9b8e8", "#e78ac3", "#a6d854", "#e5c494", "#c9c9c9", "#7fc8f0"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4]];

/**
 * `fill` shades the area between the first two series.
 * @param {{label: string, at: number[], series: {label: string, values: (number|null)[]}[], height?: number, fill?: boolean}} props
 */
export function Lines({ label, at, series, height = 220, fill = false }) {
  const box = useRef(/** @type {any} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const names = series.map((one) => one.label).join("\n");
  const data = [at.map((ms) => ms / 1000), ...series.map((one) => one.values)];
  useEffect(() => {
    const element = box.current;
    const made = new /** @type {any} */ (uPlot)(optionsOf(element, series, height, fill), data, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: widthOf(element), height }));
    observer.observe(element);
    const redraw = () => made.redraw(false);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", redraw);
    const themes = new MutationObserver(redraw);
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      observer.disconnect();
      themes.disconnect();
      scheme.removeEventListener("change", redraw);
      made.destroy();
    };
  }, [names, height, fill]);
  useEffect(() => {
    plot.current?.setData(data);
    plot.current?.setLegend({ idx: at.length - 1 });
  }, [at, series]);
  return html`<div class="lines" role="img" aria-label=${label} ref=${box}></div>`;
}

/** @param {HTMLElement} element */
function widthOf(element) {
  return Math.max(200, element.clientWidth);
}

/** The colour of text on the page says whether it is dark. */
function isDark() {
  const parts = getComputedStyle(document.body).color.match(/\d+/g) ?? ["0"];
  return Number(parts[0]) > 127;
}

/**
 * @param {HTMLElement} element
 * @param {{label: string}[]} series
 * @param {number} height
 * @param {boolean} fill
 */
function optionsOf(element, series, height, fill) {
  const style = getComputedStyle(element); // live: it follows the theme
  const text = () => style.color;
  const grid = { stroke: () => style.borderTopColor, width: 1 };
  const color = (/** @type {number} */ i) => () => (isDark() ? DARK : LIGHT)[i % LIGHT.length];
  return {
    width: widthOf(element),
    height,
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: rangeOf } },
    legend: { markers: { dash: (/** @type {any} */ _, /** @type {number} */ i) => (DASHES[(i - 1) % DASHES.length].length ? "dashed" : "solid") } },
    series: [
      { label: "time", value: (/** @type {any} */ _, /** @type {number|null} */ at) => clock(at) },
      ...series.map((one, i) => ({
        label: one.label,
        stroke: color(i),
        width: 2,
        dash: DASHES[i % DASHES.length],
        points: { size: 5 },
        value: (/** @type {any} */ _, /** @type {number|null} */ value) => (value === null ? "–" : value.toLocaleString("en")),
      })),
    ],
    bands: fill ? [{ series: [1, 2], fill: () => (isDark() ? "#fc8d6233" : "#d95f0226") }] : [],
    axes: [
      { stroke: text, grid, ticks: grid, space: 70, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(clock) },
      { stroke: text, grid, ticks: grid, size: 64, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(briefly) },
    ],
  };
}

/**
 * Whole numbers need at least one unit of height, or uPlot would label fractions of an offset.
 * @param {any} _
 * @param {number|null} low
 * @param {number|null} high
 * @returns {[number, number]}
 */
function rangeOf(_, low, high) {
  if (low === null || high === null) return [0, 1];
  const room = Math.max(1, Math.ceil((high - low) * 0.08));
  return [Math.max(0, low - room), high + room];
}

/** @param {number|null} at seconds since 1970 */
function clock(at) {
  return at === null ? "–" : time(at * 1000).slice(0, 8);
}

/** @param {number} value */
function briefly(value) {
  if (!Number.isInteger(value)) return "";
  return Math.abs(value) >= 100000 ? `${(value / 1000).toLocaleString("en")}k` : value.toLocaleString("en");
}
