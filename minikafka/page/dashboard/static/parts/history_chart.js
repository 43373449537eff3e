/**
 * The history of one thing, which the page's process keeps for a day: lines over the last ten
 * minutes to twenty-four hours.
 * @module
 */
import { Chart, DASHES } from "./chart.js";
import { brief, bytes, duration, time } from "./format.js";
import { html, useState } from "./html.js";
import { usePolled } from "./polled.js";
import { brokerColor } from "./svg.js";
import { Twin } from "./twin.js";

const POLL_MS = 10_000;
/** @type {[number, string][]} */
const RANGES = [[10, "10 min"], [60, "1 h"], [360, "6 h"], [1440, "24 h"]];

/** @typedef {{title: string, format: (n: any) => string}} Measure */

/** What is drawn of a thing, by the name of its numbers. @type {Record<string, Measure>} */
export const MEASURES = {
  records: { title: "records in, per second", format: brief },
  messages_in: { title: "records in, per second", format: brief },
  bytes_in: { title: "bytes in, per second", format: bytes },
  bytes_out: { title: "bytes out, per second", format: bytes },
  requests: { title: "requests, per second", format: brief },
  size: { title: "size on disk", format: bytes },
  lag: { title: "lag in records", format: brief },
  lag_ms: { title: "lag in time", format: duration },
};

/**
 * `of` and `name` choose the thing; a thing of kind "broker" without a name is all brokers, a line
 * each. `measures` are the numbers to choose from.
 * @param {{title?: string, of: string, name?: string, measures: string[], api: any, live: boolean}} props
 */
export function HistoryChart({ title: heading = "History", of, name, measures, api, live }) {
  const [minutes, setMinutes] = useState(60);
  const [measure, setMeasure] = useState(measures[0]);
  const query = new URLSearchParams({ of, minutes: String(minutes), ...(name === undefined ? {} : { name }) });
  const { facts, problem } = usePolled({ api, path: `history?${query}`, live, everyMs: POLL_MS });
  if (!live) return null;
  const { title, format } = MEASURES[measure];
  const times = /** @type {number[]} */ (facts?.at ?? []);
  const found = /** @type {any[]} */ (facts?.lines ?? []).filter(({ what }) => what === measure);
  const labelOf = (/** @type {any} */ line) => (of === "broker" ? `broker ${line.name}` : title);
  const lines = found.map((line, n) => ({
    label: labelOf(line),
    color: brokerColor(of === "broker" ? Number(line.name) : 1),
    values: line.values,
    dash: DASHES[n % DASHES.length],
  }));
  const rows = times.map((at, i) => ({ at, values: found.map(({ values }) => values[i]) })).reverse();
  const columns = [
    { key: "at", title: "time", render: (/** @type {any} */ row) => time(row.at) },
    ...found.map((line, n) => ({
      key: `line${n}`, title: labelOf(line), align: /** @type {const} */ ("right"),
      value: (/** @type {any} */ row) => row.values[n], render: (/** @type {any} */ row) => format(row.values[n]),
    })),
  ];
  const range = /** @type {[number, string]} */ (RANGES.find(([n]) => n === minutes))[1];
  const tools = html`
    ${measures.length > 1 && html`<label class="inline"><span class="hidden">Measure</span>
      <select name="measure" value=${measure} onChange=${(/** @type {any} */ event) => setMeasure(event.target.value)}>
        ${measures.map((one) => html`<option key=${one} value=${one}>${MEASURES[one].title}</option>`)}
      </select></label>`}
    <span role="group" aria-label="Range">${RANGES.map(([n, text]) => html`<button key=${n} type="button" class="small"
      aria-pressed=${n === minutes} onClick=${() => setMinutes(n)}>${text}</button>`)}</span>`;
  return html`<${Twin} title=${heading} columns=${columns} rows=${rows} tools=${tools}
    about=${`${title[0].toUpperCase()}${title.slice(1)}, over the last ${range}.`}>
    ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
    ${times.length > 1 && lines.length > 0
      ? html`<${Chart} key=${measure} times=${times} lines=${lines} format=${format} height=${170}
          label=${`${title} over the last ${range}: ${lines.map((line) => `${line.label} ${format(line.values.at(-1))}`).join(", ")}`} />`
      : html`<p class="muted">${facts ? "Nothing has been measured yet: the page's process looks every ten seconds." : "Reading…"}</p>`}
  <//>`;
}
