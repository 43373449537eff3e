/** The view "Messages": a space-time diagram. Hosts are columns, time runs downwards, and each
 * message is an edge from its sending to its arrival. */

import { Empty } from "../parts/empty.js";
import { bytes, count } from "../parts/format.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";
import { useSignal } from "../parts/shell.js";
import { Twin } from "../parts/twin.js";
import { ApiLegend } from "./api_marks.js";
import { describe } from "./flights.js";
import { hostsOf, spoken } from "./hosts.js";
import { messageItems } from "./message_items.js";
import { usOf } from "./model.js";
import { clockText } from "./pace.js";
import {
  autoSpan, evenScale, filtered, foldedScale, inSpan, LONGEST_US, roundSpan, SHORTEST_US,
} from "./wire_model.js";
import { Diagram } from "./wire_picture.js";
import { wordsOf } from "./words.js";

/** @typedef {import("./model.js").Wire} Wire */

const EVENTS = 60; // marks of events in the diagram

/** @param {{state: import("../reducer.js").State, session: import("./session.js").LearnSession,
 *   params: Object<string, string>}} props */
function WireView({ state, session, params }) {
  const model = useSignal(session.model);
  const [zoom, setZoom] = useState(/** @type {number|null} */ (null)); // null: by itself
  const [end, setEnd] = useState(/** @type {number|null} */ (null)); // null: now
  const [filter, setFilter] = useState("");
  const [chosen, setChosen] = useState(Number(params.message ?? 0));
  const [fold, setFold] = useState(true);
  const words = wordsOf(useSignal(session.language));
  const hosts = hostsOf(state);
  const now = model.playback?.now_us ?? 0;
  const messages = filtered(model.wire.values(), filter);
  const span = zoom ?? autoSpan(messages, now);
  const to = Math.max(end ?? now, 0);
  const shownSpan = { from: to - span, to: to + span * 0.04 };
  const wanted = Number(params.message ?? 0);
  useEffect(() => {
    const wire = model.wire.get(wanted);
    if (!wire) return;
    setChosen(wanted);
    setEnd(Math.min(now, wire.sent_us + span * 0.8));
  }, [wanted]);
  const { shown, hidden } = inSpan(messages, shownSpan, now);
  const events = state.events.slice(-500).map((event) => ({ ...event, us: usOf(model, event) }))
    .filter(({ us }) => us >= shownSpan.from && us <= shownSpan.to).slice(-EVENTS);
  const move = (/** @type {number} */ by) => {
    const next = to + by * span;
    setEnd(next >= now ? null : Math.max(span * 0.5, next));
  };
  const selected = model.wire.get(chosen);
  if (hosts.length === 0) return html`<${Empty}>No host has been reported yet.<//>`;
  return html`<div class="stack">
    <${Tools} model=${model} filter=${filter} setFilter=${setFilter} span=${span} setZoom=${setZoom} move=${move}
      fold=${fold} setFold=${setFold} words=${words} atNow=${end === null} toNow=${() => setEnd(null)} />
    <${Twin} title=${`${count(shown.length, "message")}, ${clockText(Math.max(0, shownSpan.from))} to ${clockText(to)}`}
      about=${hidden ? `${count(hidden, "earlier message")} of this span are not drawn; zoom in to see them.`
        : "Dashed messages are held, crossed ones are lost. Small marks on a column are events of its log."}
      columns=${COLUMNS} rows=${shown} rowKey=${(/** @type {any} */ row) => row.number}>
      <${Diagram} hosts=${hosts} shown=${shown} events=${events} span=${shownSpan} now=${now}
        scale=${fold ? foldedScale(shown, shownSpan, now) : evenScale(shownSpan)} chosen=${chosen} choose=${setChosen} move=${move} />
      <${ApiLegend} />
    <//>
    ${selected && html`<${Selected} wire=${selected} session=${session} />`}
  </div>`;
}

const right = /** @type {"right"} */ ("right");
const COLUMNS = [
  { key: "number", title: "number", align: right },
  { key: "api", title: "API" },
  { key: "request", title: "kind", value: (/** @type {Wire} */ row) => (row.request ? "request" : "response") },
  { key: "correlation_id", title: "correlation id", align: right },
  { key: "source", title: "from", value: (/** @type {Wire} */ row) => spoken(row.source) },
  { key: "target", title: "to", value: (/** @type {Wire} */ row) => spoken(row.target) },
  { key: "sent_us", title: "sent", align: right, render: (/** @type {Wire} */ row) => clockText(row.sent_us) },
  { key: "arrived_us", title: "arrived", align: right, render: (/** @type {Wire} */ row) =>
    (row.lost ? "lost" : row.held ? "held" : row.arrived_us === null ? "on its way" : clockText(row.arrived_us)) },
  { key: "size", title: "size", align: right, render: (/** @type {Wire} */ row) => bytes(row.size) },
];

/** @param {{model: import("./model.js").Model, filter: string, setFilter: (filter: string) => void, span: number,
 *   setZoom: (span: number) => void, fold: boolean, setFold: (fold: boolean) => void,
 *   words: import("./words.js").Words, move: (by: number) => void, atNow: boolean, toNow: () => void}} props */
function Tools({ model, filter, setFilter, span, setZoom, fold, setFold, words, move, atNow, toNow }) {
  const apis = [...new Set([...model.wire.values()].map(({ api }) => api))].sort();
  const place = Math.round(Math.log10(span / SHORTEST_US) * 10);
  const places = Math.round(Math.log10(LONGEST_US / SHORTEST_US) * 10);
  return html`<div class="toolbar">
    <label>show <select value=${filter} onChange=${(/** @type {any} */ event) => setFilter(event.target.value)}>
      <option value="">all messages</option><option value="calm">without heartbeats and fetches</option>
      ${apis.map((api) => html`<option key=${api} value=${api}>${api}</option>`)}</select></label>
    <label>time shown <input type="range" min="0" max=${places} value=${place} aria-valuetext=${clockText(span)}
      onInput=${(/** @type {any} */ event) => setZoom(roundSpan(SHORTEST_US * 10 ** (Number(event.target.value) / 10)))} />
      <span class="num">${clockText(span)}</span></label>
    <label><input type="checkbox" checked=${fold} onChange=${(/** @type {any} */ event) =>
      setFold(event.target.checked)} /> ${words.skipIdle}</label>
    <span class="row"><button class="small" onClick=${() => move(-0.5)}>Earlier</button>
      <button class="small" disabled=${atNow} onClick=${() => move(0.5)}>Later</button>
      <button class="small" aria-pressed=${atNow} onClick=${toNow}>Now</button></span>
  </div>`;
}

/** @param {{wire: Wire, session: import("./session.js").LearnSession}} props */
function Selected({ wire, session }) {
  const model = useSignal(session.model);
  const box = useRef(null);
  const pair = [...model.wire.values()].find((one) => one.correlation_id === wire.correlation_id && one.api === wire.api
    && one.source === wire.target && one.target === wire.source && one.request !== wire.request);
  return html`<section class="card" aria-label="The chosen message" ref=${box}>
    <h3>${describe(wire)}</h3>
    <dl class="inner-facts">
      <dt>sent</dt><dd>${clockText(wire.sent_us)}</dd>
      <dt>arrived</dt><dd>${wire.arrived_us === null ? "not yet" : `${clockText(wire.arrived_us)}, after ${clockText(wire.arrived_us - wire.sent_us)}`}</dd>
      <dt>size</dt><dd>${bytes(wire.size)}</dd>
      ${pair && html`<dt>its ${pair.request ? "request" : "response"}</dt><dd>sent ${clockText(pair.sent_us)}</dd>`}
    </dl>
    <p class="row">${messageItems(session, wire).map((item) => html`<button key=${item.label} class="small" disabled=${Boolean(item.reason)}
      title=${item.reason ?? item.title ?? null} onClick=${item.act}>${item.label}</button>`)}</p>
  </section>`;
}

export const view = { path: "wire", title: "Messages", key: "m", component: WireView };
