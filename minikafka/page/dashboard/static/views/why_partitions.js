/** What is odd about partitions: a part of `findings` in why_findings.js. */

import { all, naturally } from "../reducer.js";
import { chain } from "./event_chains.js";
import { byKey, counted, few, finding } from "./why_helpers.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {import("./why_findings.js").Finding} Finding */
/** @typedef {import("./why_findings.js").PartitionView} PartitionView */
/** @typedef {import("./why_findings.js").Severity} Severity */

const UNCLEAN_FOR_MS = 600_000;
const NO_LEADER = -1;

/**
 * Return all partitions, as the protocol has them. What their leaders report of them is fresher.
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
  for (const { name, facts } of all(state, "partition")) {
    if (!facts.is_leader) continue;
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
  const view = { path: "lanes", label: "Partition lanes" };
  const found = [];
  const leaderless = partitions.filter(({ leader }) => leader === null);
  for (const [missing, some] of byKey(leaderless, ({ replicas }) => replicas.join(","))) {
    found.push(
      partitionFinding(
        state,
        "leaderless",
        "critical",
        some,
        `${counted(some.length, "partition")} ${some.length === 1 ? "has" : "have"} no leader.`,
        `Nothing can be written or read there until a replica of the ISR is back (replicas: ${missing.replaceAll(",", ", ")}).`,
        view,
        missing,
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
        below,
        `${counted(below.length, "partition")} ${below.length === 1 ? "has" : "have"} fewer replicas in sync than min.insync.replicas.`,
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
  for (const [missing, some] of byKey(under, ({ replicas, isr }) =>
    replicas.filter((id) => !isr.includes(id)).join(","),
  )) {
    const alone = some.filter(({ isr }) => isr.length === 1).length;
    found.push(
      partitionFinding(
        state,
        "under-replicated",
        "warning",
        some,
        `${counted(some.length, "partition")} ${some.length === 1 ? "is" : "are"} under-replicated: ${missing.includes(",") ? "brokers" : "broker"} ${missing.replaceAll(",", ", ")} ${missing.includes(",") ? "are" : "is"} not in the ISR.`,
        alone
          ? `${counted(alone, "partition")} of them ${alone === 1 ? "has" : "have"} only one replica in sync.`
          : "",
        view,
        missing,
      ),
    );
  }
  if (moving.size) {
    found.push(
      finding(
        "reassignment",
        "note",
        `${counted(moving.size, "partition")} ${moving.size === 1 ? "is" : "are"} being reassigned.`,
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
  found.push(...uncleanFindings(state, view));
  return found;
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
 * @param {State} state @param {string} kind @param {Severity} severity @param {PartitionView[]} some
 * @param {string} title @param {string} detail @param {{path: string, label: string}} view
 * @param {string} missing ids of the brokers that are not in sync, or of all replicas
 * @returns {Finding}
 */
function partitionFinding(state, kind, severity, some, title, detail, view, missing) {
  const partitions = some
    .slice()
    .sort((a, b) => Number(a.internal) - Number(b.internal) || naturally(a.name, b.name))
    .map(({ name }) => name);
  const away = new Set(
    some.flatMap(({ replicas, isr }) => replicas.filter((id) => !isr.includes(id))),
  );
  if (kind === "leaderless")
    for (const { replicas } of some) for (const id of replicas) away.add(id);
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
    const title = `Broker ${id} is alive, but ${counted(names.length, "replica")} of it ${names.length === 1 ? "is" : "are"} offline.`;
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
        `${counted(partitions.length, "partition")} got a leader that was not in sync.`,
        `Records that only the old ISR had are lost in ${few(partitions)}.`,
        view,
        chain(state.events, { partitions, names: PARTITION_STORY }),
      ),
      partitions,
    },
  ];
}
