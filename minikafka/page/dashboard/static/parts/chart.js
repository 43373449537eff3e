/** Lines over time, by uPlot, which is loaded when the first chart is drawn. */

import { html, useEffect, useRef, useState } from "./html.js";
import { time } from "./format.js";
import { useWidth } from "./svg.js";

/**
 * @typedef {Object} Line
 * @property {string} label
 * @property {string} color
 * @property {(number|null|undefined)[]} values one for each of `times`; undefined: the line goes on
 *   to the next value; null: it breaks
 * @property {number[]} [dash] so that colour does not stand alone, e.g. [6, 3]
 */

/** Dashes for the first, second, third ... line. */
export const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [1, 4], [12, 6]];

/**
 * @param {{times: number[], lines: Line[], label: string, format: (n: any) => string,
 *   height?: number}} props `times` in milliseconds, ascending; `format` writes a value
 */
export function Chart({ times, lines, label, format, height = 180 }) {
  const [box, width] = useWidth();
  const drawn = useRef(/** @type {any} */ (null));
  const [uPlot, setLibrary] = useState(/** @type {any} */ (null));
  useEffect(() => { import("../vendor/uplot.js").then((found) => setLibrary(() => found.default)); }, []);
  const shape = lines.map((line) => `${line.label} ${line.color}`).join("\n");
  const data = [times.map((ms) => ms / 1000), ...lines.map((line) => line.values)];
  useEffect(() => {
    if (!uPlot) return undefined;
    drawn.current = new uPlot(options(lines, width, height, format), data, box.current);
    return () => {
      drawn.current.destroy();
      drawn.current = null;
    };
  }, [uPlot, shape, width, height]);
  useEffect(() => { drawn.current?.setData(data); }, [times, lines]);
  return html`<div class="chart-box">
    <ul class="legend" aria-hidden="true">${lines.map((line) => html`<li key=${line.label}>
      <svg width="24" height="10" viewBox="0 0 24 10"><line x1="0" x2="24" y1="5" y2="5"
        stroke=${line.color} stroke-width="2.5" stroke-dasharray=${(line.dash ?? []).join(" ")} /></svg>
      ${line.label} <b>${format(line.values.at(-1))}</b></li>`)}</ul>
    <div ref=${box} class="chart" role="img" aria-label=${label} style=${{ minHeight: `${height}px` }}></div>
  </div>`;
}

/** @param {Line[]} lines @param {number} width @param {number} height
 * @param {(n: any) => string} format */
function options(lines, width, height, format) {
  const style = getComputedStyle(document.documentElement);
  const axis = {
    stroke: style.getPropertyValue("--chart-ink"),
    grid: { stroke: style.getPropertyValue("--chart-line"), width: 1 },
    ticks: { show: false },
    font: `11px ${style.fontFamily}`,
  };
  return {
    width, height, legend: { show: false }, padding: [10, 26, 0, 0],
    cursor: { show: false },
    scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) =>
      [Math.min(0, low ?? 0), Math.max(high ?? 0, 1) * 1.08] } },
    axes: [
      { ...axis, size: 26, values: (/** @type {any} */ _, /** @type {number[]} */ at) =>
        at.map((seconds) => time(seconds * 1000).slice(0, 8)), space: 90 },
      { ...axis, size: 62, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map(format) },
    ],
    series: [{}, ...lines.map((line) => ({
      label: line.label, stroke: line.color, width: 2, dash: line.dash, points: { show: false },
    }))],
  };
}
