/**
 * The phases of a group as a state diagram, with the current one lit.
 * @module
 */
import { html } from "./html.js";
import { Node, Picture, useWidth } from "./svg.js";


const PHASES = [
  { name: "Empty", about: "The group has no members; its offsets are kept." },
  { name: "PreparingRebalance", about: "JoinGroup requests are parked until all members have joined." },
  { name: "CompletingRebalance", about: "SyncGroup requests are parked until the leader sends the assignment." },
  { name: "Stable", about: "Every member has its assignment." },
  { name: "Dead", about: "The group is deleted, or another broker coordinates it." },
];
/** Of a group whose coordinator assigns the partitions (KIP-848). */
const EPOCH_PHASES = [
  { name: "Empty", about: "The group has no members; its offsets are kept." },
  { name: "Assigning", about: "The target assignment is older than the group's epoch." },
  { name: "Reconciling", about: "Members revoke and take partitions, each in its own time; the others go on." },
  { name: "Stable", about: "Every member has its target assignment." },
  { name: "Dead", about: "The group is deleted, or another broker coordinates it." },
];

/**
 * Return the phases that the diagram has; null for share groups, which have two, and streams groups.
 * @param {string|null|undefined} type of the group
 */
export function phasesOf(type) {
  if (type === "share" || type === "streams") return null;
  return type === "consumer" ? EPOCH_PHASES : PHASES;
}

const BOX = { long: 156, short: 34 };
const WIDE = 860; // px; below it the diagram stands upright

/** Transitions that are no step to the next phase: [from, to, how far the arc bends]. */
const ARCS = [
  [1, 0, -30],
  [2, 1, -30],
  [3, 1, -54],
  [0, 4, 62],
  [1, 4, 48],
  [2, 4, 34],
];

/**
 * @param {{phase: string, since: string, phases: {name: string, about: string}[]}} props
 */
export function PhaseDiagram({ phase, since, phases }) {
  const [ref, width] = useWidth(800);
  const flat = width >= WIDE;
  const size = flat ? { width, height: 170 } : { width: Math.max(260, width), height: 360 };
  const centre = centres(flat, size);
  const current = phases.findIndex(({ name }) => name === phase);
  return html`<div ref=${ref}>
    <${Picture} class="phases" label=${`Phases of the group; it is ${phase}${since ? ` ${since}` : ""}`} ...${size}>
      <defs>
        <marker id="phase-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
          <path d="M0,0 L8,4 L0,8 z" class="arrow-head" />
        </marker>
      </defs>
      ${[0, 1, 2, 3].map((i) => html`<path class=${i === 3 ? "way end" : "way"} d=${step(flat, centre, i)} marker-end="url(#phase-arrow)" />`)}
      ${ARCS.map(([from, to, bend]) => html`<path class=${to === 4 ? "way end" : "way"} d=${arc(flat, centre, from, to, bend)} marker-end="url(#phase-arrow)" />`)}
      ${phases.map(
        ({ name, about }, i) => html`<${Node} key=${name} class=${i === current ? "group-phase lit" : "group-phase"}
          label=${`${name}${i === current ? ", the phase now" : ""}. ${about}`}
          transform=${`translate(${centre[i].x} ${centre[i].y})`}>
          <rect x=${-BOX.long / 2} y=${-BOX.short / 2} width=${BOX.long} height=${BOX.short} rx="8" />
          ${i === current && html`<rect class="ring" x=${-BOX.long / 2 - 4} y=${-BOX.short / 2 - 4} width=${BOX.long + 8} height=${BOX.short + 8} rx="11" />`}
          <text text-anchor="middle" y="4">${name}</text>
        <//>`,
      )}
    <//>
  </div>`;
}

/**
 * @param {boolean} flat
 * @param {{width: number, height: number}} size
 */
function centres(flat, { width, height }) {
  const ends = flat ? [BOX.long / 2 + 6, width - BOX.long / 2 - 6] : [BOX.short / 2 + 8, height - BOX.short / 2 - 8];
  return PHASES.map((_, i) => {
    const along = ends[0] + ((ends[1] - ends[0]) * i) / (PHASES.length - 1);
    return flat ? { x: along, y: 78 } : { x: width / 2, y: along };
  });
}

/**
 * @param {boolean} flat
 * @param {{x: number, y: number}[]} centre
 * @param {number} i
 */
function step(flat, centre, i) {
  const [a, b] = [centre[i], centre[i + 1]];
  if (flat) return `M${a.x + BOX.long / 2},${a.y} L${b.x - BOX.long / 2 - 2},${b.y}`;
  return `M${a.x},${a.y + BOX.short / 2} L${b.x},${b.y - BOX.short / 2 - 2}`;
}

/**
 * @param {boolean} flat
 * @param {{x: number, y: number}[]} centre
 * @param {number} from
 * @param {number} to
 * @param {number} bend
 */
function arc(flat, centre, from, to, bend) {
  const [a, b] = [centre[from], centre[to]];
  const side = Math.sign(bend);
  const shift = (to > from ? 1 : -1) * 14 * (to === 4 ? 1 : -1);
  if (flat) {
    const edge = (side * BOX.short) / 2;
    const [ax, bx] = [a.x - shift, b.x + shift * (to === 4 ? -1 + (from - 1) * 0.8 : 1)];
    return `M${ax},${a.y + edge} C${ax},${a.y + edge + bend} ${bx},${b.y + edge + bend} ${bx},${b.y + edge + side * 2}`;
  }
  const edge = (-side * BOX.long) / 2;
  const reach = -bend * 0.9;
  return `M${a.x + edge},${a.y} C${a.x + edge + reach},${a.y} ${b.x + edge + reach},${b.y} ${b.x + edge - side * 2},${b.y}`;
}

const MARKS = {
  Empty: "○", PreparingRebalance: "◔", CompletingRebalance: "◑", NotReady: "◔", Assigning: "◔", Reconciling: "◑", Stable: "●", Dead: "✕",
};

/** The phase of a group within a table: a sign and its name. @param {{phase: string|null|undefined}} props */
export function PhaseMark({ phase }) {
  const sign = MARKS[/** @type {keyof typeof MARKS} */ (phase)] ?? "·";
  return html`<span class=${`phase-mark ${phase ?? ""}`}><span aria-hidden="true">${sign}</span> ${phase ?? "–"}</span>`;
}
