/**
 * One topic: its partitions, its settings with their source, and all that can be done to it.
 * @module
 */
import { one } from "../reducer.js";
import { addressed, hashOf } from "../route.js";
import { ActButton } from "./act.js";
import { Empty } from "./empty.js";
import { brief, bytes, count, duration, number } from "./format.js";
import { HistoryChart } from "./history_chart.js";
import { html, useState } from "./html.js";
import { Moves } from "./moves.js";
import { usePolled } from "./polled.js";
import { BrokerIcon, BrokerName } from "./svg.js";
import { Table } from "./table.js";
import { sizesOf, TopicAcls, TopicGroups } from "./topic_use.js";

const POLL_MS = 3000;
const USE_POLL_MS = 5000;

/** @param {any} props */
export function TopicDetail({ name, state, api, go }) {
  const [changes, setChanges] = useState(0);
  const live = state.hello?.live !== false;
  const path = `topics/${encodeURIComponent(name)}`;
  const polled = usePolled({ api, path, live: live && Boolean(state.hello), everyMs: POLL_MS, changed: changes });
  const use = usePolled({ api, path: `topic-use/${encodeURIComponent(name)}`, live: live && Boolean(state.hello), everyMs: USE_POLL_MS, changed: changes }).facts;
  const reported = one(state, null, "topic", name);
  const facts = polled.facts ?? reported;
  const done = () => setChanges((/** @type {number} */ n) => n + 1);
  const shared = { state, api, done, fixed: ["topic"] };
  if (!facts) {
    return html`<${Back} />${polled.problem
      ? html`<p class="notice bad" role="alert">${polled.problem}</p>`
      : html`<${Empty}>${live ? `Reading the topic ${name}…` : `This recording has no topic ${name} at this time.`}<//>`}`;
  }
  const partitions = /** @type {any[]} */ (facts.partitions);
  const moves = movesOf(state, name, partitions);
  const sizes = sizesOf(state, name, partitions, use);
  const brokers = [...new Set(partitions.flatMap(({ replicas }) => replicas))].sort((a, b) => a - b);
  return html`<div class="detail">
    <${Back} />
    <header class="detail-head">
      <h2>${name} ${facts.internal && html`<span class="tag">internal</span>`}</h2>
      <span class="spread"></span>
      <a class="button" href=${hashOf("records", { topic: name })}>Records</a>
      <a class="button" href=${hashOf("lanes", { name })}>Lanes</a>
      ${use?.has_registry && html`<a class="button" href=${hashOf("registry", { search: `${name}-` })} title="Subjects of this topic">Schemas</a>`}
    </header>
    ${polled.problem && html`<p class="notice bad" role="alert">${polled.problem}</p>`}
    <div class="toolbar" role="group" aria-label="Acts on the topic">
      <${ActButton} act="topics-alter" label="Add partitions…" args=${{ topic: name, partitions: partitions.length + 1 }} ...${shared} />
      <${ActButton} act="configs-alter" label="Change settings…" args=${{ topic: name }} only=${["topic", "add", "delete"]} ...${shared} />
      <${ActButton} act="reassign" label="Move replicas…" args=${{ topic: name, brokers: brokers.join(",") }} ...${shared} />
      <${ActButton} act="reassign-verify" label="Verify moves…" args=${{ topic: name, plan: planOf(name, partitions, moves) }}
        state=${state} api=${api} done=${done} />
      ${moves.size > 0 && html`<${ActButton} act="reassign-cancel" label="Cancel moves…" className="small danger"
        args=${{ topic: name, plan: planOf(name, partitions, moves) }} state=${state} api=${api} done=${done} />`}
      <${ActButton} act="elect-leaders" label="Elect leader…" args=${{ topic: name, partition: 0 }} ...${shared} />
      <${ActButton} act="delete-records" label="Delete records…" args=${{ topic: name, partition: 0, offset: -1 }} ...${shared} />
      <${ActButton} act="topics-empty" label="Empty…" className="small danger" args=${{ topic: name, partitions: partitions.length }}
        state=${state} api=${api} done=${done} fixed=${["topic", "partitions"]} />
      <${ActButton} act="topics-create" label="Clone…" args=${cloneOf(facts, partitions)} state=${state} api=${api}
        done=${(/** @type {any} */ _, /** @type {any} */ sent) => go("topics", { name: sent.topic })}
        title="Create a topic with the same partitions, replicas and settings" />
      <${ActButton} act="topics-delete" label="Delete topic…" className="small danger" args=${{ topic: name }}
        state=${state} api=${api} fixed=${["topic"]} done=${() => go("topics")} />
    </div>
    <dl class="facts">
      <div><dt>records/s</dt><dd>${brief(use?.records_per_s)}</dd></div>
      <div><dt>size</dt><dd>${bytes(sizes.size)}</dd></div>
      <div><dt>with all replicas</dt><dd>${bytes(sizes.onDisk)}</dd></div>
      <div><dt>segments</dt><dd>${number(sizes.segments)}</dd></div>
    </dl>
    <${Moves} state=${state} api=${api} topic=${name} />
    <${Partitions} name=${name} partitions=${partitions} sizes=${sizes} state=${state} shared=${shared} />
    <${HistoryChart} title="History of the topic" of="topic" name=${name} measures=${["records", "size"]} api=${api} live=${live} />
    ${live && html`<${TopicGroups} name=${name} use=${use} /><${TopicAcls} name=${name} use=${use} />`}
    <${Configs} name=${name} configs=${facts.configs} shared=${shared} />
  </div>`;
}

/**
 * Return the reassignments of a topic that are under way, by partition.
 * @param {import("../reducer.js").State} state @param {string} name @param {any[]} partitions
 * @returns {Map<number, any>}
 */
function movesOf(state, name, partitions) {
  const found = new Map();
  for (const { partition } of partitions) {
    const move = one(state, null, "reassignment", `${name}-${partition}`);
    if (move) found.set(partition, move);
  }
  return found;
}

/**
 * Return the plan that `--verify` and `--cancel` take: the replicas that partitions have once their
 * moves are complete. Of moves under way only, if there are any.
 * @param {string} topic @param {any[]} partitions @param {Map<number, any>} moves
 */
function planOf(topic, partitions, moves) {
  const rows = partitions
    .filter(({ partition }) => moves.size === 0 || moves.has(partition))
    .map(({ partition, replicas }) => {
      const move = moves.get(partition);
      const target = move
        ? move.replicas.filter((/** @type {number} */ id) => !move.removing.includes(id))
        : replicas;
      return { topic, partition, replicas: target };
    });
  return JSON.stringify({ version: 1, partitions: rows });
}

/**
 * Return the arguments that create a topic with the same settings: those that were set for this one.
 * @param {any} facts @param {any[]} partitions
 */
function cloneOf(facts, partitions) {
  const set = (facts.configs ?? []).filter((/** @type {any} */ row) => isOfTopic(row) && !row.sensitive && row.value !== null);
  return {
    topic: `${facts.name}-clone`,
    partitions: partitions.length,
    replication_factor: Math.max(1, ...partitions.map(({ replicas }) => replicas.length)),
    config: set.map((/** @type {any} */ { name, value }) => `${name}=${value}`).join(","),
  };
}

function Back() {
  return html`<p class="back"><a href="#/topics">‹ All topics</a></p>`;
}

/** @param {any} props */
function Partitions({ name, partitions, sizes, state, shared }) {
  const right = /** @type {const} */ ("right");
  const may = state.hello?.live !== false && !state.hello?.read_only;
  const columns = [
    { key: "partition", title: "partition", align: right, render: (/** @type {any} */ row) =>
      html`<a href=${hashOf("lanes", { name: `${name}-${row.partition}` })}>${row.partition}</a>` },
    { key: "leader", title: "leader", render: (/** @type {any} */ row) => html`<${BrokerName} broker=${row.leader} />` },
    { key: "leader_epoch", title: "epoch", align: right },
    { key: "replicas", title: "replicas", value: (/** @type {any} */ row) => row.replicas.join(","),
      render: (/** @type {any} */ row) => html`<${Replicas} row=${row} reassignment=${one(state, null, "reassignment", `${name}-${row.partition}`)} />` },
    { key: "log_start_offset", title: "log start", align: right },
    { key: "last_stable_offset", title: "last stable", align: right },
    { key: "high_watermark", title: "high watermark", align: right },
    { key: "records", title: "offsets", align: right, value: offsetsOf, render: (/** @type {any} */ row) => html`<a
      title="Records of the partition" href=${hashOf("records", { topic: name, partition: row.partition })}>${number(offsetsOf(row))}</a>` },
    { key: "size", title: "size", align: right, value: (/** @type {any} */ row) => sizes.of(row.partition).size,
      render: (/** @type {any} */ row) => bytes(sizes.of(row.partition).size) },
    { key: "segments", title: "segments", align: right, value: (/** @type {any} */ row) => sizes.of(row.partition).segments },
    ...(may ? [{ key: "acts", title: "", sortable: false, render: (/** @type {any} */ row) => html`<span class="acts">
      <${ActButton} act="elect-leaders" label="Elect" args=${{ topic: name, partition: row.partition }} ...${shared}
        fixed=${["topic", "partition"]} title="Request the election of the partition's preferred leader" />
      <${ActButton} act="delete-records" label="Delete…" title="Delete the oldest records of the partition" args=${{ topic: name, partition: row.partition, offset: row.high_watermark ?? -1 }}
        ...${shared} fixed=${["topic", "partition"]} /></span>` }] : []),
  ];
  return html`<section class="card" aria-label="Partitions">
    <h3>${count(partitions.length, "partition")} <span class="muted">a hollow mark: a replica that is not in sync</span></h3>
    <${Table} caption=${`Partitions of ${name}`} columns=${columns} rows=${partitions} rowKey=${(/** @type {any} */ row) => row.partition} />
  </section>`;
}

/** How many offsets are between the log start and the high watermark. @param {any} row */
function offsetsOf({ high_watermark: end, log_start_offset: start }) {
  return end === null || start === null ? null : end - start;
}

/** The replicas of a partition: solid marks are in sync. @param {{row: any, reassignment: any}} props */
function Replicas({ row, reassignment }) {
  const label = `Replicas ${row.replicas.join(", ")}; in sync ${row.isr.join(", ") || "none"}`;
  return html`<span class="replicas" role="img" aria-label=${label} title=${label}>
    ${row.replicas.map((/** @type {number} */ id) => html`<span class="broker-name" key=${id}>
      <${BrokerIcon} broker=${id} hollow=${!row.isr.includes(id)} />${id}${(row.offline ?? []).includes(id) ? " offline" : ""}</span>`)}
    ${reassignment && html`<span class="pill warn">moving: +${reassignment.adding.join(",") || "–"} −${reassignment.removing.join(",") || "–"}</span>`}
  </span>`;
}

/** @param {any} props */
function Configs({ name, configs, shared }) {
  const [search, setSearch] = addressed("setting");
  const [changed, setChanged] = addressed("changed");
  if (!configs) return html`<section class="card" aria-label="Settings"><h3>Settings</h3><p class="muted">Settings were not read.</p></section>`;
  const rows = configs.filter((/** @type {any} */ row) => row.name.includes(search) && (!changed || !isDefault(row)));
  const columns = [
    { key: "name", title: "setting", render: (/** @type {any} */ row) => html`<code>${row.name}</code>` },
    { key: "value", title: "value", render: (/** @type {any} */ row) => (row.sensitive ? "hidden" : html`<code>${valueText(row.name, row.value)}</code>`) },
    { key: "default", title: "default", render: (/** @type {any} */ row) => html`<code class="muted">${valueText(row.name, row.default)}</code>` },
    { key: "source", title: "source", render: (/** @type {any} */ row) => html`<span class=${isDefault(row) ? "muted" : "pill quiet"}>${sourceText(row.source)}</span>` },
    { key: "acts", title: "", sortable: false, render: (/** @type {any} */ row) => (row.read_only ? "" : html`<span class="acts">
      <${ActButton} act="configs-alter" label="Change" args=${{ topic: name, add: `${row.name}=${row.sensitive ? "" : (row.value ?? "")}` }}
        only=${["topic", "add"]} ...${shared} />
      ${isOfTopic(row) && html`<${ActButton} act="configs-alter" label="Default" args=${{ topic: name, delete: row.name }}
        ...${shared} only=${["topic", "delete"]} fixed=${["topic", "delete"]} title="Let the default apply again" />`}</span>`) },
  ];
  return html`<section class="card" aria-label="Settings">
    <h3>${count(configs.length, "setting")}</h3>
    <div class="toolbar">
      <label><span class="hidden">Search settings</span><input type="search" placeholder="Search settings" value=${search}
        onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} /></label>
      <label><input type="checkbox" checked=${changed === "1"} onChange=${(/** @type {any} */ event) => setChanged(event.target.checked ? "1" : null)} /> only changed ones</label>
    </div>
    <${Table} caption=${`Settings of ${name}`} columns=${columns} rows=${rows} rowKey=${(/** @type {any} */ row) => row.name}
      pageSize=${60} none="No setting matches." />
  </section>`;
}

/** A value, and what its unit makes of it: "604800000 (7 d)". @param {string} name @param {any} value */
function valueText(name, value) {
  if (value === null || value === undefined) return "–";
  if (value === "") return "(empty)";
  const size = Number(value);
  if (!(size >= 1000 && size < 1e15)) return String(value);
  if (name.endsWith(".ms")) return `${value} (${duration(size)})`;
  return name.endsWith("bytes") ? `${value} (${bytes(size)})` : String(value);
}

/** @param {any} row */
function isOfTopic(row) {
  return /topic/i.test(String(row.source));
}

/** @param {any} row */
function isDefault(row) {
  return /default/i.test(String(row.source)) && !/dynamic/i.test(String(row.source));
}

/** "DYNAMIC_TOPIC_CONFIG" -> "dynamic topic config". @param {any} source */
function sourceText(source) {
  return String(source ?? "–").toLowerCase().replaceAll("_", " ");
}
