/**
 * Transactions as swim lanes: a lane a transactional id, its states as bars over time, and below
 * them a mark for each partition whose end marker is written or not.
 * @module
 */
import { duration, time } from "./format.js";
import { html } from "./html.js";
import { Node, Picture, useWidth } from "./svg.js";
import { marksOf } from "./transaction_lanes.js";
import { Twin } from "./twin.js";

/** A sign for each state, so that colour is not alone. @type {Record<string, string>} */
export const STATE_SIGNS = {
  Empty: "○", Ongoing: "▶", PrepareCommit: "◐", PrepareAbort: "◐", CompleteCommit: "✓", CompleteAbort: "✕", Dead: "✕",
};
const LANE = 58;
const TOP = 8;
const AXIS = 26;
const LABELS = 170; // px at the left; narrow pictures have the names above the bars
const MOST_MARKS = 12;

/** @param {{lanes: import("./transaction_lanes.js").Lane[], more: number, now: number, windowMs: number}} props */
export function SwimLanes({ lanes, more, now, windowMs }) {
  const [ref, width] = useWidth(900);
  const narrow = width < 560;
  const left = narrow ? 4 : LABELS;
  const right = width - 10;
  const x = (/** @type {number} */ at) => left + Math.max(0, Math.min(1, 1 - (now - at) / windowMs)) * (right - left);
  const height = TOP + Math.max(1, lanes.length) * LANE + AXIS;
  const spans = lanes.flatMap((lane) => lane.spans.map((span, i) => ({ ...span, name: lane.name, key: `${lane.name}/${i}` })));
  const shown = spans.filter((span) => span.to >= now - windowMs);
  return html`<${Twin} title="Swim lanes"
    about=${`A square below a bar is a partition: filled once its end marker is written.${more ? ` ${more} more ids are in the table.` : ""}`}
    rows=${shown.reverse()} rowKey=${(/** @type {any} */ row) => row.key}
    columns=${[
      { key: "name", title: "transactional id" },
      { key: "state", title: "state" },
      { key: "from", title: "from", render: (/** @type {any} */ row) => time(row.from) },
      { key: "long", title: "for", value: (/** @type {any} */ row) => row.to - row.from, render: (/** @type {any} */ row) => duration(row.to - row.from) },
      { key: "marks", title: "end markers", value: marksText, sortable: false },
    ]}>
    <div ref=${ref}>
      <${Picture} class="swim" label=${`Transactions of the last ${duration(windowMs)}: ${lanes.length} ids`} width=${width} height=${height}>
        <defs><pattern id="txn-stripes" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="8" height="8" class="stripe-back" /><rect width="4" height="8" class="stripe" /></pattern></defs>
        ${ticks(windowMs).map((ago) => html`<g key=${ago} aria-hidden="true">
          <line class="grid" x1=${x(now - ago)} x2=${x(now - ago)} y1=${TOP} y2=${height - AXIS} />
          <text class="muted" text-anchor=${ago === 0 ? "end" : "middle"} x=${x(now - ago)} y=${height - 8}>${ago === 0 ? "now" : `−${duration(ago)}`}</text></g>`)}
        ${lanes.map((lane, i) => html`<g key=${lane.name} data-entity=${`transaction|${lane.row.coordinator ?? ""}|${lane.name}`} transform=${`translate(0 ${TOP + i * LANE})`}>
          <line class="grid" x1="0" x2=${width} y1=${LANE - 2} y2=${LANE - 2} />
          <text class="txn-name" x=${narrow ? 4 : 0} y=${narrow ? 11 : 22}>${clipped(lane.name, narrow ? 40 : 22)}<title>${lane.name}</title></text>
          ${!narrow && html`<text class="muted" x="0" y="38">${lane.row.state}</text>`}
          <line class="idle" x1=${left} x2=${right} y1=${narrow ? 24 : 18} y2=${narrow ? 24 : 18} />
          ${lane.spans.filter((span) => span.to >= now - windowMs).map((span, k) => html`<${Bar} key=${`${span.state}${span.from}`} span=${span} name=${lane.name}
            x1=${x(span.from)} x2=${x(span.to)} y=${narrow ? 15 : 9} last=${k === lane.spans.length - 1} right=${right} />`)}
        </g>`)}
      <//>
    </div>
  <//>`;
}

/** One state of one transaction. @param {any} props */
function Bar({ span, name, x1, x2, y, last, right }) {
  const { state } = span;
  const marks = marksOf(span);
  const label = `${name}: ${state} from ${time(span.from)} for ${duration(span.to - span.from)}${
    marks.length ? `; ${marksText(span)}` : ""}`;
  if (state === "Empty" || state === "Dead") return null;
  if (state.startsWith("Complete")) {
    return html`<${Node} label=${label} class=${`txn ${state}`}>
      <g transform=${`translate(${x1} ${y + 9})`}><circle r="9" /><text text-anchor="middle" y="4">${STATE_SIGNS[state]}</text></g>
      ${last && html`<${Marks} marks=${marks} x=${x1 - 9} y=${y + 24} right=${right} />`}<//>`;
  }
  const width = Math.max(6, x2 - x1);
  return html`<${Node} label=${label} class=${`txn ${state}`}>
    <rect class="txn-bar" x=${x1} y=${y} width=${width} height="18" rx="4" />
    ${width > 90 && html`<text class="on-bar" x=${x1 + 8} y=${y + 13}>${STATE_SIGNS[state]} ${state}</text>`}
    ${last && html`<${Marks} marks=${marks} x=${x1} y=${y + 24} right=${right} />`}
  <//>`;
}

/** A square a partition, and their names where there is room. @param {any} props */
function Marks({ marks, x, y, right }) {
  const long = Math.min(marks.length, MOST_MARKS) * 14;
  const from = Math.min(x, right - long);
  const names = marks.length > MOST_MARKS ? `and ${marks.length - MOST_MARKS} more` : marks.map((/** @type {any} */ one) => one.partition).join(", ");
  const room = Math.floor((right - from - long) / 7);
  return html`<g>
    ${marks.slice(0, MOST_MARKS).map((/** @type {any} */ { partition, marked }, /** @type {number} */ i) => html`<rect key=${partition} x=${from + i * 14} y=${y}
      class=${`txn-mark ${marked === null ? "unknown" : marked ? "written" : "missing"}`} width="10" height="10" rx="2">
      <title>${partition}: ${marked === null ? "unknown" : marked ? "marker written" : "no marker yet"}</title></rect>`)}
    ${marks.length > 0 && room > 8 && html`<text class="muted" x=${from + long + 4} y=${y + 9}>${clipped(names, room)}</text>`}
  </g>`;
}

/** @param {import("./transaction_lanes.js").Span} span */
function marksText(span) {
  const marks = marksOf(span);
  if (marks.length === 0) return "";
  if (span.state.startsWith("Prepare") && span.unmarked !== null) {
    return `${marks.length - span.unmarked} of ${marks.length} end markers written`;
  }
  return `${marks.filter(({ marked }) => marked).length} of ${marks.length} end markers written`;
}

/** @param {number} windowMs */
function ticks(windowMs) {
  return [0, 0.25, 0.5, 0.75].map((share) => share * windowMs);
}

/** @param {string} text @param {number} most */
function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
