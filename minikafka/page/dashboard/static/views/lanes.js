/**
 * The view "Partition lanes": for each partition a lane a replica, over a common axis of offsets.
 * Log start, high watermark, last stable offset and log end are marks that move as brokers report.
 */

import { hashOf } from "../route.js";
import { endAxis, labelMiddle, pace, ticks, wholeAxis } from "../parts/axis.js";
import { Empty, hasInside } from "../parts/empty.js";
import { number } from "../parts/format.js";
import { html, useId, useRef, useState } from "../parts/html.js";
import { partitions } from "../parts/partitions.js";
import { BrokerIcon, BrokerMark, BrokerName, brokerColor, Node, useWidth } from "../parts/svg.js";
import { Pager } from "../parts/table.js";
import { Twin } from "../parts/twin.js";

const A_PAGE = 10; // partitions
const LANE = 36; // px
const BAR = 12;
const LONG = 4000; // a bar is moved by its end, and cut off where the log starts

/** @typedef {import("../parts/partitions.js").PartitionView} PartitionView */
/** @typedef {import("../parts/partitions.js").Lane} Lane */
/** @typedef {import("../parts/axis.js").Axis} Axis */

/** @param {{state: import("../reducer.js").State, go: any, params: Object<string, string>}} props */
function Lanes({ state, go, params }) {
  const [whole, setWhole] = useState(false);
  const views = partitions(state);
  const wanted = params.name ?? "";
  const found = views.filter((view) => matches(view, wanted, params));
  const pages = Math.ceil(found.length / A_PAGE);
  const page = Math.min(Number(params.page ?? 1), Math.max(pages, 1)) - 1;
  const shown = found.slice(page * A_PAGE, (page + 1) * A_PAGE);
  const turn = (/** @type {Object<string, any>} */ changed) =>
    go("lanes", { ...params, page: null, ...changed });
  return html`
    <${Filter} views=${views} params=${params} turn=${turn} whole=${whole} setWhole=${setWhole} />
    ${shown.length === 0
      ? html`<${Empty}>${views.length ? "No partition is like that." : "There are no partitions yet."}<//>`
      : html`<${Twin} title=${`${number(found.length)} ${found.length === 1 ? "partition" : "partitions"}`}
          columns=${COLUMNS} rows=${shown.flatMap(rowsOf)}
          rowKey=${(/** @type {any} */ row) => `${row.partition}/${row.broker}`}>
        <${Legend} inside=${hasInside(state)} />
        <div class="lane-list" role="list" aria-label="Partitions">${shown.map((view) =>
          html`<${PartitionLanes} key=${view.name} view=${view} whole=${whole} at=${state.at} />`)}</div>
      <//>`}
    <${Pager} page=${page} pages=${pages} total=${found.length} what="partitions"
      setPage=${(/** @type {number} */ n) => turn({ page: n ? n + 1 : null })} />`;
}

/** A name is a topic or a partition; internal topics are shown only by name or on wish.
 * @param {PartitionView} view @param {string} wanted @param {Object<string, string>} params */
function matches(view, wanted, params) {
  if (wanted && view.topic !== wanted && view.name !== wanted) return false;
  if (!wanted && view.internal && params.internal !== "yes") return false;
  return params.odd !== "yes" || view.leader === null || view.isr.length < view.replicas.length;
}

/** @param {{views: PartitionView[], params: Object<string, string>, turn: any, whole: boolean,
 *   setWhole: any}} props */
function Filter({ views, params, turn, whole, setWhole }) {
  const topics = [...new Set(views.map(({ topic }) => topic))];
  const wanted = params.name ?? "";
  const one = wanted && !topics.includes(wanted) ? wanted : null; // a partition by name
  const flag = (/** @type {string} */ name, /** @type {string} */ text) => html`<label>
    <input type="checkbox" checked=${params[name] === "yes"} onChange=${(/** @type {any} */ event) =>
      turn({ [name]: event.target.checked ? "yes" : null })} /> ${text}</label>`;
  return html`<div class="toolbar">
    <label>topic <select value=${wanted} onChange=${(/** @type {any} */ event) =>
      turn({ name: event.target.value || null })}>
      <option value="">all</option>
      ${one && html`<option value=${one}>${one}</option>`}
      ${topics.map((topic) => html`<option key=${topic} value=${topic}>${topic}</option>`)}
    </select></label>
    ${flag("odd", "only odd ones")}
    ${!wanted && flag("internal", "internal topics")}
    <span class="segmented" role="group" aria-label="Offsets shown">
      <button class="small" aria-pressed=${!whole} onClick=${() => setWhole(false)}>where it moves</button>
      <button class="small" aria-pressed=${whole} onClick=${() => setWhole(true)}>whole log</button>
    </span>
  </div>`;
}

/** @param {{inside: boolean}} props */
function Legend({ inside }) {
  const item = (/** @type {any} */ picture, /** @type {string} */ text) => html`<li>
    <svg width="26" height="18" viewBox="-13 -9 26 18" aria-hidden="true">${picture}</svg>${text}</li>`;
  return html`<ul class="legend lanes" aria-label="Legend">
    ${item(html`<path d=${START} class="lane-mark start" />`, "log start")}
    ${item(html`<path d=${WATERMARK} class="lane-mark hw" transform="translate(0 -5)" />`, "high watermark")}
    ${item(html`<path d=${STABLE} class="lane-mark lso" />`, "last stable offset")}
    ${item(html`<circle r="5" class="lane-mark leo" style=${{ fill: "var(--set-1)" }} />`, "log end")}
    ${item(html`<rect x="-12" y="-6" width="24" height="12" rx="3" class="lane-bar in-isr"
      style=${{ "--broker": "var(--set-1)" }} /><rect x="-12" y="-6" width="14" height="12" rx="3"
      class="lane-bar committed" style=${{ "--broker": "var(--set-1)" }} />`, "in the ISR; light: not committed")}
    ${item(html`<rect x="-12" y="-6" width="24" height="12" rx="3" class="lane-bar out-of-isr"
      style=${{ "--broker": "var(--set-1)" }} />`, "out of the ISR")}
    ${!inside && html`<li class="muted">Followers have no offsets here: Kafka's protocol has them
      only of leaders.</li>`}
  </ul>`;
}

const START = "M4-8H0V8H4";
const WATERMARK = "M0 0 5.5 9H-5.5Z";
const STABLE = "M0-5 4.5 0 0 5-4.5 0Z";
const BEFORE = "M3-5-3 0 3 5"; // an offset before the first that is shown

/** @param {{view: PartitionView, whole: boolean, at: number}} props */
function PartitionLanes({ view, whole, at }) {
  const [box, width] = useWidth();
  const grows = useRef(/** @type {import("../parts/axis.js").Pace|null} */ (null));
  const end = view.lanes.find((lane) => lane.leads)?.logEnd ?? null;
  grows.current = pace(grows.current, at, end);
  const axis = whole ? wholeAxis(view) : endAxis(view, grows.current.least);
  return html`<section class="partition" role="listitem" aria-label=${view.name} data-entity=${`topic||${view.topic}`}>
    <${Heading} view=${view} />
    <div ref=${box}><${Picture} view=${view} axis=${axis} width=${width} /></div>
  </section>`;
}

/** @param {{view: PartitionView}} props */
function Heading({ view }) {
  const { name, leader, leaderEpoch, partitionEpoch, replicas, isr, proposedIsr, lanes } = view;
  const lost = lanes.some((lane) => lane.leads && !lane.alive);
  const marks = (/** @type {number[]} */ set) => replicas.map((broker) => html`<${BrokerIcon}
    key=${broker} broker=${broker} hollow=${!set.includes(broker)} />`);
  return html`<header class="partition-head">
    <h3>${name}</h3>
    ${leader === null ? html`<span class="pill bad">no leader</span>`
      : html`<span class="fact">leader <${BrokerName} broker=${leader} label=${String(leader)} />${
        lost && html` <span class="pill bad">gone</span>`}</span>`}
    ${leaderEpoch !== null && html`<span class="fact">epoch <b>${leaderEpoch}</b></span>`}
    ${partitionEpoch !== null && html`<span class="fact">partition epoch <b>${partitionEpoch}</b></span>`}
    <span class=${`fact ${isr.length < replicas.length ? "short-isr" : ""}`}
      title=${`ISR ${isr.join(", ")} of ${replicas.join(", ")}`}>ISR ${marks(isr)}
      <b>${isr.join(", ") || "empty"}</b></span>
    ${proposedIsr && html`<span class="tag warn">proposed ISR ${proposedIsr.join(", ")}</span>`}
    <span class="spread"></span>
    <a class="fact" href=${hashOf("events", { text: name })}>events</a>
  </header>`;
}

/** @param {{view: PartitionView, axis: Axis, width: number}} props */
function Picture({ view, axis, width }) {
  const narrow = width < 520;
  const left = narrow ? 34 : 118;
  const right = narrow ? 12 : 158;
  const inner = Math.max(40, width - left - right);
  const x = (/** @type {number} */ offset) =>
    left + Math.max(0, Math.min(1, (offset - axis.from) / (axis.to - axis.from))) * inner;
  const leader = view.lanes.find((lane) => lane.leads);
  const bottom = view.lanes.length * LANE;
  return html`<svg class="picture lanes" role="list" aria-label=${`Replicas of ${view.name}`}
    width=${width} height=${bottom + 22}>
    ${ticks(axis, Math.max(2, inner / 110)).map((at) => html`<g key=${at} aria-hidden="true">
      <line x1=${x(at)} x2=${x(at)} y1="2" y2=${bottom} class="grid" />
      <text x=${labelMiddle(x(at), number(at), width)} y=${bottom + 16} text-anchor="middle" class="muted tick">${number(at)}</text>
    </g>`)}
    ${leader && leader.highWatermark !== null && html`<line class="watermark moving" y1="2"
      y2=${bottom} aria-hidden="true" x1="0" x2="0" style=${move(x(leader.highWatermark))} />`}
    ${view.lanes.map((lane, i) => html`<${LaneRow} key=${lane.broker} lane=${lane} y=${i * LANE}
      x=${x} axis=${axis} left=${left} inner=${inner} narrow=${narrow} name=${view.name} />`)}
  </svg>`;
}

/** Movement by CSS, so that it is smooth, and still where less motion is asked for.
 * @param {number} x @param {number} [y] */
function move(x, y = 0) {
  return { transform: `translate(${x.toFixed(1)}px, ${y}px)` };
}

/** @param {{lane: Lane, y: number, x: (offset: number) => number, axis: Axis, left: number,
 *   inner: number, narrow: boolean, name: string}} props */
function LaneRow({ lane, y, x, axis, left, inner, narrow, name }) {
  const { broker, leads, inIsr, alive, logEnd } = lane;
  const middle = y + LANE / 2;
  const color = brokerColor(broker);
  const look = `lane ${inIsr ? "" : "outside"} ${alive ? "" : "dead"}`;
  return html`<${Node} label=${describe(lane, name)} role="listitem" class=${look} data-entity=${`partition|${broker}|${name}`}
    style=${{ "--broker": color }}>
    <${BrokerMark} broker=${broker} x=${12} y=${middle} r=${7} hollow=${!inIsr} />
    ${!narrow && html`<text x="27" y=${middle + 4} class="lane-name">${broker}</text>
      ${leads && html`<text x="46" y=${middle + 4} class="lane-role">leader</text>`}
      ${!leads && !alive && html`<text x="46" y=${middle + 4} class="lane-role">gone</text>`}`}
    ${narrow && leads && html`<text x="24" y=${middle + 4} class="lane-role">★</text>`}
    <line x1=${left} x2=${left + inner} y1=${middle} y2=${middle} class="track" />
    ${logEnd !== null && (logEnd < axis.from
      ? html`<path d=${BEFORE} class="lane-before" transform=${`translate(${left + 6} ${middle})`} />`
      : html`<${Marks} lane=${lane} middle=${middle} x=${x} axis=${axis} />`)}
    ${!narrow && html`<text x=${left + inner + 16} y=${middle + 4} class="lane-end">${
      number(logEnd)}</text>
      ${lane.behind !== null && lane.behind > 0 && html`<text x=${left + inner + 152} y=${middle + 4}
        text-anchor="end" class="lane-behind">${number(lane.behind)} behind</text>`}`}
  <//>`;
}

/** The bar of a log and its marks: watermark below, last stable offset above, log end at its end.
 * @param {{lane: Lane, middle: number, x: (offset: number) => number, axis: Axis}} props */
function Marks({ lane, middle, x, axis }) {
  const { inIsr, logStart, highWatermark, lastStable, knownEnd } = lane;
  const logEnd = /** @type {number} */ (lane.logEnd);
  const start = x(logStart ?? 0);
  const top = middle - BAR / 2;
  const clip = useId();
  const bar = (/** @type {string} */ look, /** @type {number} */ end) => html`<rect y=${top}
    class=${`lane-bar ${look} moving`} x=${-LONG} width=${LONG} height=${BAR} rx="3"
    style=${move(x(end))} />`;
  return html`
    <clipPath id=${clip}><rect x=${start - 1} y=${top - 2} width=${LONG} height=${BAR + 4} /></clipPath>
    <g clip-path=${`url(#${clip})`}>
      ${bar(inIsr ? "in-isr" : "out-of-isr", logEnd)}
      ${highWatermark !== null && highWatermark > axis.from
        && bar("committed", Math.min(highWatermark, logEnd))}
    </g>
    ${axis.zoomed && html`<linearGradient id=${`${clip}-fade`} class="lane-fade"><stop offset="0" />
      <stop offset="1" stop-opacity="0" /></linearGradient><rect x=${x(axis.from) - 2} y=${top - 2}
      width="30" height=${BAR + 4} fill=${`url(#${clip}-fade)`} />`}
    ${logStart !== null && logStart >= axis.from && html`<path d=${START} class="lane-mark start moving"
      style=${move(start, middle)} />`}
    ${knownEnd !== null && knownEnd !== logEnd && html`<line class="lane-known moving" y1="-10" y2="10"
      x1="0" x2="0" style=${move(x(knownEnd), middle)} />`}
    <circle r="5.5" class="lane-mark leo moving" style=${move(x(logEnd), middle)} />
    ${lastStable !== null && html`<path d=${STABLE} class="lane-mark lso moving"
      style=${move(x(lastStable), top - 4)} />`}
    ${highWatermark !== null && html`<path d=${WATERMARK} class="lane-mark hw moving"
      style=${move(x(highWatermark), middle + BAR / 2)} />`}`;
}

/** @param {Lane} lane @param {string} name */
function describe(lane, name) {
  const part = (/** @type {string} */ what, /** @type {number|null} */ offset) =>
    (offset === null ? [] : [`${what} ${number(offset)}`]);
  return [
    `${name} on broker ${lane.broker}`, lane.leads ? "leader" : "follower",
    lane.inIsr ? "in the ISR" : "out of the ISR", ...(lane.alive ? [] : ["its broker is gone"]),
    ...part("log start", lane.logStart), ...part("high watermark", lane.highWatermark),
    ...part("last stable offset", lane.lastStable), ...part("log end", lane.logEnd),
    ...(lane.behind ? [`${number(lane.behind)} behind the leader`] : []),
  ].join(", ");
}

const right = /** @type {"right"} */ ("right");
const COLUMNS = [
  { key: "partition", title: "partition" },
  { key: "broker", title: "broker", align: right },
  { key: "role", title: "role" },
  { key: "isr", title: "ISR" },
  { key: "epoch", title: "leader epoch", align: right },
  { key: "logStart", title: "log start", align: right },
  { key: "highWatermark", title: "high watermark", align: right },
  { key: "lastStable", title: "last stable", align: right },
  { key: "logEnd", title: "log end", align: right },
  { key: "behind", title: "behind", align: right },
];

/** @param {PartitionView} view */
function rowsOf(view) {
  return view.lanes.map((lane) => ({
    ...lane, partition: view.name, epoch: view.leaderEpoch,
    role: lane.leads ? "leader" : lane.alive ? "follower" : "gone",
    isr: lane.inIsr ? "in" : "out",
  }));
}

export const view = { path: "lanes", title: "Partition lanes", key: "2", component: Lanes };
