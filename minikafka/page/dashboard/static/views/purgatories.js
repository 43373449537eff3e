/** The view "Purgatories": parked requests, the timing wheels that expire them, and their watch lists. */

import { OnlyMinikafka, Empty } from "../parts/empty.js";
import { count, duration, number } from "../parts/format.js";
import { html, useMemo, useState } from "../parts/html.js";
import { useWidth } from "../parts/svg.js";
import { Table } from "../parts/table.js";
import { Twin } from "../parts/twin.js";
import { all } from "../reducer.js";
import { BrokerChooser, Choice } from "./inner_parts.js";
import { countAll, currentSlot, nowOf, tasksOf, wheelsOf } from "./wheel_model.js";
import { Dial, firstSpeed, SmallDial, SPEEDS, useWheels } from "./wheel_dial.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {(path: string, params?: Object<string, any>) => void} Go */

const WIDEST = 460; // px of the dial
const MAX_KEYS = 40;

/** What waits in each purgatory, and for what. @type {Object<string, string>} */
export const ABOUT = {
  Produce: "Produce requests with acks=all wait here until all replicas in sync have the records.",
  Fetch:
    "Fetches of followers and consumers wait here until there are enough new records, or until max_wait has passed.",
  DeleteRecords: "DeleteRecords requests wait here until all replicas have moved their log start.",
  ElectLeader: "ElectLeaders requests wait here until the brokers know the new leaders.",
  topic:
    "CreateTopics, CreatePartitions and DeleteTopics wait here until the brokers know the topics.",
  Heartbeat:
    "Each member of a group has a time-out here. A heartbeat replaces it; if it expires, the member is removed.",
  Rebalance: "Groups that rebalance wait here until all members have joined or synchronised.",
  Events: "Pages like this one wait here for the next event of the broker's log.",
};

/**
 * Return the watch lists: how many of the listed operations watch each key, most first.
 *
 * @param {any} facts of kind `purgatory`
 * @returns {{key: string, operations: number, kinds: string}[]}
 */
export function watchLists(facts) {
  /** @type {Map<string, {key: string, operations: number, kinds: Set<string>}>} */
  const lists = new Map();
  for (const { kind, keys } of facts.operations || []) {
    for (const key of keys) {
      const row = lists.get(key) || { key, operations: 0, kinds: new Set() };
      row.operations += 1;
      row.kinds.add(kind);
      lists.set(key, row);
    }
  }
  return [...lists.values()]
    .map((row) => ({ ...row, kinds: [...row.kinds].join(", ") }))
    .sort(
      (a, b) => b.operations - a.operations || a.key.localeCompare(b.key, "en", { numeric: true }),
    );
}

/** @param {{state: State, go: Go, params: Object<string, string>}} props */
function Component({ state, go, params }) {
  const rows = all(state, "purgatory");
  const brokers = [...new Set(rows.map(({ broker }) => Number(broker)))];
  if (!brokers.length) return html`<${OnlyMinikafka} state=${state} what="its purgatories" />`;
  const broker = brokers.includes(Number(params.broker)) ? Number(params.broker) : brokers[0];
  const mine = rows.filter((row) => row.broker === broker);
  const chosen = mine.find(({ name }) => name === params.name) ?? busiest(mine);
  const open = (/** @type {any} */ more) =>
    go("purgatories", { name: chosen.name, broker, ...more });
  return html`<div class="inner">
    <p class="lead">A request whose response must wait is parked in a purgatory. It leaves when what it waits for
      happens to one of its keys, or when the timing wheels say that its time is up.</p>
    <${BrokerChooser} brokers=${brokers} chosen=${broker} choose=${(/** @type {number} */ id) => open({ broker: id })} />
    <div class="cards purgatory-cards" role="group" aria-label="Purgatories">${mine.map(
      ({ name, facts }) => html`<button key=${name}
      class="card purgatory-card" data-entity=${`purgatory|${broker}|${name}`} aria-pressed=${name === chosen.name} onClick=${() => open({ name })}>
      <${SmallDial} facts=${facts} />
      <span><b>${broken(name)}</b><br /><span class="muted">${number(facts.num_delayed_operations)} parked</span></span>
    </button>`,
    )}</div>
    <${Purgatory} key=${`${broker} ${chosen.name}`} facts=${chosen.facts} broker=${broker} />
  </div>`;
}

/** "DeleteRecords" with a place where a line may break. @param {string} name */
function broken(name) {
  return name.split(/(?<=[a-z])(?=[A-Z])/).map((word, i) => html`${i > 0 && html`<wbr />`}${word}`);
}

/** @param {import("../reducer.js").Entity[]} rows */
function busiest(rows) {
  return rows.reduce((a, b) =>
    b.facts.num_delayed_operations > a.facts.num_delayed_operations ? b : a,
  );
}

/** @param {{facts: any, broker: number}} props */
function Purgatory({ facts, broker }) {
  const [slower, setSlower] = useState(firstSpeed());
  const [ref, width] = useWidth(WIDEST);
  const { model, now, expired } = useWheels(facts, slower);
  const size = Math.min(WIDEST, width);
  const speeds = SPEEDS.map(({ slower: value, label }) => ({ value, label }));
  return html`
    <p class="about-purgatory"><b>${facts.name}.</b> ${ABOUT[facts.name] ?? "Delayed operations of this kind wait here."}</p>
    <${Twin} title=${`The ${model.wheels.length === 1 ? "wheel" : "wheels"} of ${facts.name} on broker ${broker}`}
      about="Each ring is a wheel. The hand is the clock, the marked slot is where the wheel stands. When the hand reaches a slot in use, its tasks move inwards to a finer wheel; at the centre they have expired."
      columns=${WHEEL_COLUMNS} rows=${model.wheels.map(wheelRow)} rowKey=${(/** @type {any} */ row) => row.level}
      tools=${html`<${Choice} label="Speed of the wheels" options=${speeds} chosen=${slower} choose=${setSlower} />`}>
      <div class="dial-and-legend" data-entity=${`purgatory|${broker}|${facts.name}`}><div class="dial-box" ref=${ref}>
        <${Dial} model=${model} now=${now} size=${size} moving=${slower !== 0} expired=${expired}
          label=${`Timing wheels of purgatory ${facts.name} of broker ${broker}`} /></div>
        <${Legend} model=${model} facts=${facts} slower=${slower} /></div>
    <//>
    <${Parked} facts=${facts} />
    <${Watched} facts=${facts} />`;
}

const WHEEL_COLUMNS = [
  { key: "level", title: "Level", align: "right" },
  {
    key: "tick",
    title: "Tick",
    value: (/** @type {any} */ row) => row.tickMs,
    render: (/** @type {any} */ row) => duration(row.tickMs),
    align: "right",
  },
  { key: "size", title: "Slots", align: "right" },
  {
    key: "span",
    title: "Covers",
    value: (/** @type {any} */ row) => row.intervalMs,
    render: (/** @type {any} */ row) => duration(row.intervalMs),
    align: "right",
  },
  { key: "currentMs", title: "Current time (ms)", align: "right" },
  { key: "slot", title: "Current slot", align: "right" },
  { key: "tasks", title: "Tasks", align: "right" },
  { key: "used", title: "Slots in use (slot: tasks)" },
];

/** @param {import("./wheel_model.js").Wheel} wheel */
function wheelRow(wheel) {
  const used = [...wheel.buckets.values()].filter(({ tasks, hidden }) => tasks.length + hidden);
  return {
    ...wheel,
    slot: currentSlot(wheel),
    tasks: countAll(wheel),
    used: used
      .sort((a, b) => a.startMs - b.startMs)
      .map(({ slot, tasks, hidden }) => `${slot}: ${tasks.length + hidden}`)
      .join(", "),
  };
}

/** @param {{model: import("./wheel_model.js").Wheels, facts: any, slower: number}} props */
function Legend({ model, facts, slower }) {
  return html`<div class="dial-legend">
    <dl class="inner-facts">
      <dt>parked, with a time-out</dt><dd>${number(facts.num_delayed_operations)}</dd>
      <dt>places in watch lists</dt><dd>${number(facts.purgatory_size)}</dd>
      <dt>keys watched</dt><dd>${number(facts.watched_keys)}</dd>
      <dt>next wake-up</dt><dd>${facts.next_wake_up_in_ms === null ? "none" : `in ${duration(Math.max(0, facts.next_wake_up_in_ms))}`}</dd>
      ${
        facts.completed !== undefined &&
        html`<dt>completed by an event</dt><dd>${number(facts.completed)}</dd>
        <dt>expired</dt><dd>${number(facts.expired)}</dd>`
      }
      <dt>wake-ups of ${facts.reaper}</dt><dd>${number(facts.wake_ups)}</dd>
    </dl>
    <ol class="levels">${model.wheels
      .slice()
      .reverse()
      .map(
        (wheel) => html`<li key=${wheel.level}>
      ${place(wheel.level, model.wheels.length)}<b>${duration(wheel.tickMs)}</b> × ${wheel.size} slots = ${duration(wheel.intervalMs)}<br />
      <span class="muted">${pace(wheel.intervalMs, slower)}; ${count(countAll(wheel), "task")}</span></li>`,
      )}</ol>
    ${
      model.wheels.length > 0 &&
      html`<p class="muted">A task goes to the finest wheel that reaches its time-out, so
      adding and cancelling it costs the same, whatever else waits.</p>`
    }
  </div>`;
}

/** Name a ring. @param {number} level @param {number} levels */
function place(level, levels) {
  if (levels === 1) return "";
  return level === levels ? "outermost: " : level === 1 ? "innermost: " : `level ${level}: `;
}

/** @param {number} intervalMs @param {number} slower */
function pace(intervalMs, slower) {
  if (slower === 0) return "stands still here";
  const seconds = (intervalMs * slower) / 1000;
  return seconds < 1
    ? `${number(Math.round(1 / seconds))} turns a second${slower > 1 ? " here" : ""}`
    : `a turn in ${duration(seconds * 1000)}${slower > 1 ? " here" : ""}`;
}

/**
 * Return the listed operations, each with the slot of a wheel in which its time-out lies.
 *
 * @param {any} facts of kind `purgatory`
 */
export function parkedRows(facts) {
  /** @type {Map<string, string>} */
  const places = new Map();
  for (const { level, buckets } of wheelsOf(facts).wheels) {
    for (const { slot, tasks } of buckets.values()) {
      for (const { id } of tasks) places.set(id, `level ${level}, slot ${slot}`);
    }
  }
  return tasksOf(facts, nowOf(facts)).map((task, i) => ({
    ...task,
    left: facts.operations[i].remaining_ms,
    age: facts.operations[i].age_ms,
    place: places.get(task.id) ?? "due",
  }));
}

/** The operations with a bar of the time that is left. @param {{facts: any}} props */
function Parked({ facts }) {
  const rows = useMemo(() => parkedRows(facts), [facts]);
  const columns = [
    {
      key: "kind",
      title: "Operation",
      render: (/** @type {any} */ row) => html`<span class="nowrap">${row.kind}</span>`,
    },
    {
      key: "keys",
      title: "Watches",
      value: (/** @type {any} */ row) => row.keys.length,
      render: (/** @type {any} */ row) => html`<${Keys} row=${row} />`,
    },
    {
      key: "left",
      title: "Time left",
      render: (/** @type {any} */ row) => html`<${Left} row=${row} />`,
    },
    {
      key: "delayMs",
      title: "Time-out",
      render: (/** @type {any} */ row) => duration(row.delayMs),
      align: "right",
    },
    {
      key: "age",
      title: "Parked for",
      render: (/** @type {any} */ row) => duration(row.age),
      align: "right",
    },
    { key: "place", title: "Slot" },
  ];
  const more = facts.num_delayed_operations - rows.length;
  return html`<section><h2>Parked operations</h2>
    <${Table} caption=${`Operations parked in ${facts.name}`} columns=${columns} rows=${rows} pageSize=${20}
      rowKey=${(/** @type {any} */ row) => row.id} none="Nothing waits here at the moment." />
    ${more > 0 && html`<p class="muted">${count(more, "more operation")} ${more === 1 ? "is" : "are"} not listed.</p>`}
  </section>`;
}

/** @param {{row: any}} props */
function Left({ row }) {
  const share = row.delayMs > 0 ? Math.max(0, Math.min(1, row.left / row.delayMs)) : 0;
  return html`<span class="left"><span class="bar" aria-hidden="true"><span style=${{ width: `${share * 100}%` }}></span></span>
    <span class="num">${duration(row.left)}</span></span>`;
}

/** @param {{row: any}} props */
function Keys({ row }) {
  const shown = row.keys.slice(0, 3).join(", ");
  const more = row.keys.length - 3;
  return html`<span class="keys" title=${row.keys.join(", ")}>${shown || "no key"}${
    more > 0 || row.moreKeys
      ? html` <span class="muted">and ${
          row.moreKeys ? `more than ${Math.max(more, 1)}` : more
        } more</span>`
      : ""
  }</span>`;
}

/** @param {{facts: any}} props */
function Watched({ facts }) {
  const rows = watchLists(facts);
  const most = Math.max(1, ...rows.map(({ operations }) => operations));
  const columns = [
    { key: "key", title: "Key" },
    { key: "operations", title: "Operations", align: "right" },
    { key: "kinds", title: "Kind" },
  ];
  if (!rows.length) return html`<${Empty}>No key of this purgatory is watched at the moment.<//>`;
  return html`<${Twin} title="Watch lists by key" columns=${columns} rows=${rows} rowKey=${(/** @type {any} */ row) => row.key}
    about="An event on a key (records were appended to a partition, a member joined a group) tries each operation in its list.">
    <ul class="watch-lists">${rows.slice(0, MAX_KEYS).map(
      ({ key, operations, kinds }) => html`<li key=${key}
      aria-label=${`${key}: ${count(operations, "operation")} (${kinds})`}>
      <span class="watch-bar" style=${{ width: `${(operations / most) * 100}%` }} aria-hidden="true"></span>
      <span class="watch-key">${key}</span><span class="num">${operations}</span></li>`,
    )}</ul>
    ${rows.length > MAX_KEYS && html`<p class="muted">${number(rows.length - MAX_KEYS)} more keys are in the table.</p>`}
  <//>`;
}

export const view = { path: "purgatories", title: "Purgatories", key: "4", component: Component };
