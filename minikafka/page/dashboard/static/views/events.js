/** The view "Events": the event logs of all brokers, merged, newest first, filtered and folded. */

import { hashOf, replace } from "../route.js";
import { Empty } from "../parts/empty.js";
import { number, time } from "../parts/format.js";
import { html, useState } from "../parts/html.js";
import { brokers, splitName } from "../parts/partitions.js";
import { BrokerName } from "../parts/svg.js";
import { Pager } from "../parts/table.js";
import { sentence, STORIES } from "./event_stories.js";

const A_PAGE = 100; // lines
const BURST_MS = 250; // between neighbours of a line
const BURST_LINES = 8; // so far back a line of the same name may be
const LEVELS = ["debug", "info", "warning", "error", "critical"];
/** @type {Object<string, string>} */
const LOOKS = { debug: "quiet", info: "quiet", warning: "warn", error: "bad", critical: "bad" };

/** @typedef {import("../reducer.js").BrokerEvent} BrokerEvent */
/** @typedef {{events: BrokerEvent[], key: string}} Line one event, or a run of the same name */

/** @param {{state: import("../reducer.js").State, go: any, params: Object<string, string>}} props */
function Events({ state, go, params }) {
  const fold = params.fold !== "no";
  const found = state.events.filter((event) => matches(event, params));
  const lines = fold ? folded(found) : found.map((event) => ({ events: [event], key: keyOf(event) }));
  const pages = Math.ceil(lines.length / A_PAGE);
  const current = Math.max(0, Math.min(Math.trunc(Number(params.page)) || 1, pages) - 1);
  const shown = lines.slice(current * A_PAGE, (current + 1) * A_PAGE);
  const lost = Object.values(state.missed).reduce((sum, n) => sum + n, 0);
  return html`
    <${Filter} state=${state} params=${params} />
    <p class="muted">${number(found.length)} of the last ${number(state.events.length)} events${
      lost ? `; ${number(lost)} more came faster than this page read them` : ""}.</p>
    ${shown.length === 0
      ? html`<${Empty}>${state.events.length ? "No event is like that."
        : "No event has come yet. Only minikafka brokers with a debug listener send them."}<//>`
      : html`<ol class="events" aria-label="Events, newest first">${shown.map((line) =>
          html`<${EventLine} key=${line.key} line=${line} />`)}</ol>`}
    <${Pager} page=${current} pages=${pages} total=${lines.length} what="lines"
      setPage=${(/** @type {number} */ to) => go("events", { ...params, page: to ? to + 1 : null })} />`;
}

/** @param {BrokerEvent} event @param {Object<string, string>} params */
export function matches(event, { broker, level, component, text }) {
  if (broker && String(event.broker) !== broker) return false;
  if (level && LEVELS.indexOf(event.level) < LEVELS.indexOf(level)) return false;
  if (component && event.facts.component !== component) return false;
  if (!text) return true;
  const wanted = text.toLowerCase();
  if (`${event.name} ${partitionOf(event.facts) ?? ""}`.toLowerCase().includes(wanted)) return true;
  return JSON.stringify(event.facts).toLowerCase().includes(wanted);
}

/** Return the name of the partition that an event is about, or null.
 * @param {import("../reducer.js").Facts} facts @returns {string|null} */
export function partitionOf(facts) {
  if (facts.topic !== undefined && facts.partition !== undefined) {
    return `${facts.topic}-${facts.partition}`;
  }
  const name = facts.partition ?? facts.topic_partition;
  return typeof name === "string" && Number.isInteger(splitName(name)[1]) && name.includes("-")
    ? name : null;
}

/** Newest first. Events of one broker and name within a burst become one line: a failover makes
 * hundreds of them in turn. @param {BrokerEvent[]} events @returns {Line[]} */
export function folded(events) {
  /** @type {Line[]} */
  const lines = [];
  for (let i = events.length - 1; i >= 0; i--) {
    const event = events[i];
    const same = lines.slice(-BURST_LINES).reverse().find(({ events: [newest, ...more] }) =>
      newest.name === event.name && newest.broker === event.broker
      && (more.at(-1) ?? newest).at - event.at <= BURST_MS);
    if (same) {
      same.events.push(event);
      same.key = keyOf(event); // its oldest: the line stays the same while newer ones come
    } else {
      lines.push({ events: [event], key: keyOf(event) });
    }
  }
  return lines;
}

/** @param {BrokerEvent} event */
function keyOf({ broker, at, number: n }) {
  return `${broker}/${at}/${n}`;
}

/** @param {{state: import("../reducer.js").State, params: Object<string, string>}} props */
function Filter({ state, params }) {
  const components = [...new Set(state.events.map(({ facts }) => facts.component).filter(Boolean))].sort();
  const turn = (/** @type {string} */ name, /** @type {any} */ value) =>
    replace("events", { ...params, [name]: value || null, page: null });
  const choice = (/** @type {string} */ name, /** @type {any[]} */ values, /** @type {string} */ none) =>
    html`<label>${name} <select value=${params[name] ?? ""} onChange=${(/** @type {any} */ event) =>
      turn(name, event.target.value)}>
      <option value="">${none}</option>
      ${values.map((value) => html`<option key=${value} value=${String(value)}>${value}</option>`)}
    </select></label>`;
  return html`<div class="toolbar" role="search">
    ${choice("broker", brokers(state).map(({ id }) => id), "all")}
    ${choice("level", LEVELS.slice(1, 4), "all")}
    ${choice("component", components, "all")}
    <label>text <input type="search" value=${params.text ?? ""} placeholder="name, topic-0, any fact"
      onInput=${(/** @type {any} */ event) => turn("text", event.target.value)} /></label>
    <label><input type="checkbox" checked=${params.fold !== "no"}
      onChange=${(/** @type {any} */ event) => turn("fold", event.target.checked ? null : "no")} /> fold repeats</label>
  </div>`;
}

/** @param {{line: Line}} props */
export function EventLine({ line }) {
  const [open, setOpen] = useState(false);
  const [newest] = line.events;
  const many = line.events.length;
  return html`<li class=${`event ${LOOKS[newest.level]}-event`}>
    <${Head} event=${newest} />
    <div class="event-facts">
      ${many > 1 ? html`<button class="small" aria-expanded=${open} onClick=${() => setOpen(!open)}>
          ${number(many)} times</button> <span class="muted">since ${time(line.events[many - 1].at)}
          ${" "}${together(line.events)}</span>`
        : html`<${Says} event=${newest} /><${FactList} facts=${newest.facts} />`}
    </div>
    ${open && many > 1 && html`<ol class="event-run">${line.events.map((event) => html`<li
      key=${event.number}><span class="mono muted">${time(event.at)}</span> <${FactList}
      facts=${event.facts} /></li>`)}</ol>`}
  </li>`;
}

/** The event in a sentence, where there is one. @param {{event: BrokerEvent}} props */
function Says({ event }) {
  const said = event.name in STORIES ? sentence(event) : "";
  return said && html`<span class="event-says">${said}</span>`;
}

/** Which partitions a run of events is about, in a few words. @param {BrokerEvent[]} events */
function together(events) {
  const names = [...new Set(events.map(({ facts }) => partitionOf(facts)).filter(Boolean))];
  if (names.length === 0) return "";
  const few = names.slice(-3).reverse().join(", ");
  return names.length > 3 ? `${few} and ${number(names.length - 3)} more` : few;
}

/** @param {{event: BrokerEvent}} props */
function Head({ event }) {
  return html`<span class="event-time mono">${time(event.at)}</span>
    <span class="event-broker"><${BrokerName} broker=${event.broker} label=${String(event.broker)} /></span>
    <span class="event-name"><b class="mono">${event.name}</b>
      ${event.level !== "info" && html` <span class=${`pill ${LOOKS[event.level]}`}>${event.level}</span>`}
      <span class="muted"> ${event.facts.component}</span></span>`;
}

/** @param {{facts: import("../reducer.js").Facts}} props */
function FactList({ facts }) {
  const partition = partitionOf(facts);
  const hidden = new Set(["component", "broker", ...(partition ? ["topic", "partition"] : [])]);
  return html`${partition && html`<a href=${hashOf("lanes", { name: partition })}>${partition}</a> `}
    ${Object.entries(facts).filter(([name]) => !hidden.has(name)).map(([name, value]) => html`<span
      key=${name} class="event-fact"><span class="muted">${name}</span> ${
        typeof value === "string" ? value : JSON.stringify(value)}</span> `)}`;
}

export const view = { path: "events", title: "Events", key: "e", component: Events };
