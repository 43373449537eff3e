/** What is odd about partitions: a part of `findings` in why_findings.js. */

import { count, few } from "../parts/format.js";
import { splitName } from "../parts/partitions.js";
import { all, naturally, one } from "../reducer.js";
import { chain } from "./event_chains.js";
import { byKey, finding } from "./why_helpers.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {import("./why_findings.js").Finding} Finding */
/** @typedef {import("./why_findings.js").PartitionView} PartitionView */
/** @typedef {import("./why_findings.js").Severity} Severity */

const UNCLEAN_FOR_MS = 600_000;
const NO_LEADER = -1;

/**
 * Return the partitions of described topics, as the protocol has them. What their leaders report of
 * them is fresher. Of the other topics `beyond` has numbers, see `alike`.
 *
 * @param {State} state
 * @returns {PartitionView[]}
 */
export function partitionViews(state) {
  /** @type {Map<string, PartitionView>} */
  const views = new Map();
  for (const { facts } of all(state, "topic", null)) {
    const setting = (facts.configs || []).find(
      (/** @type {any} */ c) => c.name === "min.insync.replicas",
    );
    for (const row of facts.partitions || []) {
      const name = `${facts.name}-${row.partition}`;
      views.set(name, {
        name,
        leader: known(row.leader),
        replicas: row.replicas || [],
        isr: row.isr || [],
        offline: row.offline || [],
        minIsr: setting ? Number(setting.value) : null,
        internal: Boolean(facts.internal),
        epoch: row.leader_epoch ?? -1,
      });
    }
  }
  const beyond = one(state, null, "beyond");
  for (const { name, facts } of all(state, "partition")) {
    if (!facts.is_leader) continue;
    if (beyond && !one(state, null, "topic", splitName(name)[0])) continue;
    const view = views.get(name);
    const leaders = ofLeader(name, facts);
    if (!view) views.set(name, leaders);
    else if (leaders.epoch >= view.epoch) {
      views.set(name, {
        ...leaders,
        offline: view.offline,
        internal: view.internal,
        minIsr: leaders.minIsr ?? view.minIsr,
      });
    }
  }
  return [...views.values()];
}

/** @param {string} name @param {any} facts @returns {PartitionView} */
function ofLeader(name, facts) {
  return {
    name,
    leader: known(facts.leader),
    replicas: facts.replicas || [],
    isr: facts.isr || [],
    offline: [],
    minIsr: facts.min_insync_replicas ?? facts.min_isr ?? null,
    internal: name.startsWith("__"),
    epoch: facts.leader_epoch ?? -1,
  };
}

/** @param {number|null|undefined} leader */
function known(leader) {
  return leader === undefined || leader === NO_LEADER ? null : leader;
}

/** @param {State} state @param {PartitionView[]} partitions @returns {Finding[]} */
export function partitionFindings(state, partitions) {
  const lanes = { path: "lanes", label: "Partition lanes" };
  const view = { ...lanes, params: { odd: "yes", internal: "yes" } };
  const found = [];
  const leaderless = partitions.filter(({ leader }) => leader === null);
  for (const some of alike(state, "leaderless", leaderless, ({ replicas }) => replicas)) {
    const replicas = some.key
      ? ` (replicas: ${some.key.replaceAll(",", ", ")})`
      : "; their replicas are on various brokers";
    found.push(
      partitionFinding(
        state,
        "leaderless",
        "critical",
        some,
        `${count(some.count, "partition")} ${some.count === 1 ? "has" : "have"} no leader.`,
        `Nothing can be written or read there until a replica of the ISR is back${replicas}.`,
        view,
        some.key,
      ),
    );
  }
  const led = partitions.filter(({ leader }) => leader !== null);
  const below = led.filter(({ isr, minIsr }) => minIsr !== null && isr.length < minIsr);
  if (below.length) {
    const least = Math.max(...below.map(({ minIsr }) => Number(minIsr)));
    found.push(
      partitionFinding(
        state,
        "under-min-isr",
        "critical",
        { rows: below, names: [], key: "", count: below.length, alone: 0 },
        `${count(below.length, "partition")} ${below.length === 1 ? "has" : "have"} fewer replicas in sync than min.insync.replicas.`,
        `Producers with acks=all get NOT_ENOUGH_REPLICAS until ${least} replicas are in sync.`,
        view,
        "",
      ),
    );
  }
  const moving = new Set(all(state, "reassignment", null).map(({ name }) => name));
  const under = led.filter(
    ({ replicas, isr, name }) => isr.length < replicas.length && !moving.has(name),
  );
  for (const some of alike(state, "under_replicated", under, ({ replicas, isr }) =>
    replicas.filter((id) => !isr.includes(id)),
  )) {
    found.push(
      partitionFinding(
        state,
        "under-replicated",
        "warning",
        some,
        `${count(some.count, "partition")} ${some.count === 1 ? "is" : "are"} under-replicated: ${missingText(some.key)}`,
        some.alone
          ? `${count(some.alone, "partition")} of them ${some.alone === 1 ? "has" : "have"} only one replica in sync.`
          : "",
        view,
        some.key,
      ),
    );
  }
  if (moving.size) {
    found.push(
      finding(
        "reassignment",
        "note",
        `${count(moving.size, "partition")} ${moving.size === 1 ? "is" : "are"} being reassigned.`,
        `New replicas catch up with their leaders: ${few([...moving])}.`,
        view,
        chain(state.events, {
          partitions: moving,
          names: ["new_replicas_awaited", "isr_expanding"],
        }),
      ),
    );
  }
  found.push(...offlineFindings(state, partitions, view));
  found.push(...uncleanFindings(state, lanes));
  return found;
}

/** @param {string} missing ids of brokers, "" for various ones */
function missingText(missing) {
  if (!missing) return "various brokers are not in the ISR.";
  const several = missing.includes(",");
  return `${several ? "brokers" : "broker"} ${missing.replaceAll(",", ", ")} ${several ? "are" : "is"} not in the ISR.`;
}

/**
 * @typedef {{key: string, rows: PartitionView[], names: string[], count: number, alone: number}} Alike
 *   partitions that are sick for the same reason: those described, names of others, how many there
 *   are in all, and how many of them have only one replica in sync
 */

/**
 * Return sick partitions by the brokers that are the reason, of all topics: described or not.
 * @param {State} state @param {"leaderless"|"under_replicated"} what
 * @param {PartitionView[]} described @param {(partition: PartitionView) => number[]} reason
 * @returns {Alike[]}
 */
function alike(state, what, described, reason) {
  /** @type {Map<string, Alike>} */
  const found = new Map();
  for (const [key, rows] of byKey(described, (one) => reason(one).join(","))) {
    const alone = rows.filter(({ isr }) => isr.length === 1).length;
    found.set(key, { key, rows, names: [], count: rows.length, alone });
  }
  const beyond = one(state, null, "beyond");
  for (const row of beyond?.sick ?? []) {
    if (row.what !== what) continue;
    const key = row.brokers.join(",");
    const known = found.get(key) ?? { key, rows: [], names: [], count: 0, alone: 0 };
    found.set(key, {
      ...known,
      names: row.partitions,
      count: known.count + row.count,
      alone: known.alone + row.alone,
    });
  }
  const more = beyond?.[`more_${what}`] ?? 0;
  if (more) found.set("", { key: "", rows: [], names: [], count: more, alone: 0 });
  return [...found.values()];
}

const DISK_STORY = [
  "disk_failed",
  "flush_failed",
  "replicas_taken_offline",
  "replicas_went_offline",
  "replica_failed",
];

const PARTITION_STORY = [
  "brokers_changed",
  "brokers_failed",
  "leader_lost",
  "leader_not_reached",
  "broker_found_gone",
  "registration_lost",
  "isr_shrinking",
  "session_expired",
  "controlled_shutdown_requested",
  "controlled_shutdown_failed",
  "broker_stopped",
  "zookeeper_connection_lost",
  "partition_state_changed",
  "offline_partition_leader_elected",
  "partition_state_change_failed",
  "log_directory_failed",
  "disk_failed",
  "flush_failed",
  "replicas_taken_offline",
  "replicas_went_offline",
  "replica_failed",
  "replica_disk_filled",
  "unclean_leader_elected",
  "broker_started",
  "brokers_started",
];

/**
 * @param {State} state @param {string} kind @param {Severity} severity @param {Alike} some
 * @param {string} title @param {string} detail @param {{path: string, label: string}} view
 * @param {string} missing ids of the brokers that are not in sync, or of all replicas
 * @returns {Finding}
 */
function partitionFinding(state, kind, severity, some, title, detail, view, missing) {
  const described = some.rows
    .slice()
    .sort((a, b) => Number(a.internal) - Number(b.internal) || naturally(a.name, b.name))
    .map(({ name }) => name);
  const partitions = [...described, ...some.names];
  const away = new Set(
    some.rows.flatMap(({ replicas, isr }) => replicas.filter((id) => !isr.includes(id))),
  );
  for (const id of missing.split(",")) if (id) away.add(Number(id));
  if (kind === "leaderless")
    for (const { replicas } of some.rows) for (const id of replicas) away.add(id);
  return {
    ...finding(
      missing ? `${kind}-${missing}` : kind,
      severity,
      title,
      detail,
      view,
      chain(state.events, {
        partitions,
        brokers: away,
        names: PARTITION_STORY,
        until: ["isr_expanding"],
      }),
    ),
    kind,
    partitions,
    count: some.count,
  };
}

/**
 * Replicas that are offline on a live broker: their log directory has failed.
 *
 * @param {State} state @param {PartitionView[]} partitions
 * @param {{path: string, label: string}} view @returns {Finding[]}
 */
function offlineFindings(state, partitions, view) {
  const live = all(state, "node", null).filter(({ facts }) => facts.online);
  return live.flatMap(({ facts: { id } }) => {
    const names = partitions.filter(({ offline }) => offline.includes(id)).map(({ name }) => name);
    if (!names.length) return [];
    const title = `Broker ${id} is alive, but ${count(names.length, "replica")} of it ${names.length === 1 ? "is" : "are"} offline.`;
    const events = { partitions: names, names: DISK_STORY, until: ["broker_started"] };
    const chained = chain(state.events, events);
    const detail =
      "A log directory of the broker has failed. The others of the ISR serve meanwhile.";
    return [
      {
        ...finding(`offline-${id}`, "critical", title, detail, view, chained),
        partitions: names,
      },
    ];
  });
}

/** @param {State} state @param {{path: string, label: string}} view @returns {Finding[]} */
function uncleanFindings(state, view) {
  const recent = state.events.filter(
    ({ name, at }) => name === "unclean_leader_elected" && state.at - at < UNCLEAN_FOR_MS,
  );
  if (!recent.length) return [];
  const partitions = [...new Set(recent.map(({ facts }) => String(facts.partition)))];
  return [
    {
      ...finding(
        "unclean",
        "critical",
        `${count(partitions.length, "partition")} got a leader that was not in sync.`,
        `Records that only the old ISR had are lost in ${few(partitions)}.`,
        view,
        chain(state.events, { partitions, names: PARTITION_STORY }),
      ),
      partitions,
    },
  ];
}
