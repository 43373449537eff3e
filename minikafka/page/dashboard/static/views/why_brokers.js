/** What is odd about the controller and about brokers: parts of `findings` in why_findings.js. */

import { beyondOf } from "../parts/partitions.js";
import { all, one } from "../reducer.js";
import { count, few, number } from "../parts/format.js";
import { chain } from "./event_chains.js";
import { byKey, finding } from "./why_helpers.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {import("./why_findings.js").Finding} Finding */
/** @typedef {import("./why_findings.js").PartitionView} PartitionView */

const STALLS_FOR_MS = 60_000; // a stall is a finding for so long
const QUIET_MS = 30_000; // what came before such a pause is another story than a broker's loss

// ---- the controller

/** @param {State} state @returns {Finding[]} */
export function controllerFindings(state) {
  const reports = all(state, "controller");
  const active = reports.filter(({ facts }) => facts.active);
  const cluster = one(state, null, "cluster", "");
  const view = { path: "controller", label: "Controller" };
  const story = {
    events: [
      "controller_elected",
      "controller_resigned",
      "controller_moved",
      "controller_moved_already",
      "elected_controller_resigned",
      "controller_failover_failed",
      "controller_failover_completed",
      "event_failed",
      "session_expired",
      "broker_found_gone",
      "registration_lost",
    ],
  };
  const found = [];
  if (active.length > 1) {
    const each = active
      .map(({ broker, facts }) => `broker ${broker} (epoch ${facts.epoch})`)
      .join(" and ");
    found.push(
      finding(
        "two-controllers",
        "critical",
        "Two brokers believe that they are the controller.",
        `They are ${each}. The higher epoch is right; brokers and ZooKeeper refuse what the other one writes.`,
        view,
        chain(state.events, story),
      ),
    );
  }
  const named =
    cluster?.controller ?? reports.map(({ facts }) => facts.controller).find((id) => id >= 0);
  const any = cluster !== undefined || reports.length > 0;
  if (any && !active.length && (named === null || named === undefined)) {
    found.push(
      finding(
        "no-controller",
        "critical",
        "The cluster has no controller.",
        "No leader can be elected, and no topic created, until a broker wins the election.",
        view,
        chain(state.events, story),
      ),
    );
  }
  for (const { broker, facts } of active) {
    for (const { broker: to, queue } of (facts.brokers || []).filter(
      (/** @type {any} */ row) => row.troubled,
    )) {
      found.push(
        finding(
          `channel-${to}`,
          "warning",
          `Controller ${broker} cannot send to broker ${to}.`,
          `${count(queue, "request")} wait in the channel; broker ${to} may act on old leaders meanwhile.`,
          view,
          chain(state.events, { brokers: [to], until: ["broker_connected"] }),
        ),
      );
    }
  }
  return found;
}

// ---- brokers

/** @param {State} state @param {PartitionView[]} partitions @returns {Finding[]} */
export function brokerFindings(state, partitions) {
  const found = [];
  const view = { path: "cluster", label: "Cluster" };
  const gone = new Set();
  for (const { facts: node } of all(state, "node", null)) {
    if (node.online) continue;
    gone.add(node.id);
    const hosted =
      partitions.filter(({ replicas }) => replicas.includes(node.id)).length +
      beyondOf(state, node.id).replicas;
    found.push(
      finding(
        `gone-${node.id}`,
        "critical",
        `Broker ${node.id} is gone.`,
        `It is not registered in ZooKeeper any more. It hosts replicas of ${count(hosted, "partition")}.`,
        view,
        chain(state.events, {
          brokers: [node.id],
          until: ["broker_started", "brokers_started"],
          quietMs: QUIET_MS,
        }),
      ),
    );
  }
  for (const { broker, facts } of all(state, "reachable")) {
    if (facts.debug || gone.has(broker) || !hasListener(state, broker)) continue;
    found.push(
      finding(
        `silent-${broker}`,
        "warning",
        `Broker ${broker} is registered, but its debug listener does not respond.`,
        `${facts.reason ? `${plain(facts.reason)} ` : ""}${silence(facts.reason ?? "")}`,
        view,
        chain(state.events, {
          brokers: [Number(broker)],
          until: ["broker_started", "brokers_started"],
          quietMs: QUIET_MS,
        }),
      ),
    );
  }
  for (const { broker, facts } of all(state, "broker")) {
    if (facts.zookeeper_connected === false) {
      found.push(
        finding(
          `zookeeper-${broker}`,
          "warning",
          `Broker ${broker} has no connection to ZooKeeper.`,
          "If it does not return within the session time-out, the controller takes the broker for dead.",
          view,
          chain(state.events, {
            brokers: [Number(broker)],
            names: ["zookeeper_connection_lost", "session_open_failed", "session_expired"],
            until: ["zookeeper_reconnected"],
          }),
        ),
      );
    }
    if (facts.state && facts.state !== "RUNNING") {
      found.push(
        finding(
          `state-${broker}`,
          "note",
          `Broker ${broker} is in the state ${facts.state}.`,
          "",
          view,
          chain(state.events, { brokers: [Number(broker)] }),
        ),
      );
    }
  }
  return found;
}

/** Whether a debug listener is expected of a broker: one whose settings name none has none by
 * design, such as those of `minikafka up --secure`. @param {State} state @param {number|null} broker */
function hasListener(state, broker) {
  const node = one(state, null, "node", String(broker));
  return !node || node.debug === undefined || node.debug !== null;
}

/** What the loss of a debug listener may mean. @param {string} reason */
function silence(reason) {
  return /refused/i.test(reason)
    ? "Nothing listens there: the broker's process has ended, and its ZooKeeper session has not yet."
    : "The broker may be paused, cut off from this page, or busy with one long step.";
}

/** @param {string} reason */
function plain(reason) {
  const text = reason.trim();
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

// ---- disks, throttles, stalls

/** @param {State} state @returns {Finding[]} */
export function diskFindings(state) {
  /** @type {Map<number|null, string>} */
  const failed = new Map();
  for (const { name, broker } of state.events) {
    if (name === "log_directory_failed") failed.set(broker, "failed");
    else if (name === "log_directory_filled") failed.set(broker, failed.get(broker) ?? "is full");
    else if (name === "log_directory_space_regained" && failed.get(broker) === "is full")
      failed.delete(broker);
    else if (name === "broker_started") failed.delete(broker);
  }
  const names = [
    "log_directory_failed",
    "log_directory_filled",
    "disk_failed",
    "flush_failed",
    "replicas_taken_offline",
    "replica_disk_filled",
    "replicas_went_offline",
  ];
  return [...failed].map(([broker, what]) =>
    finding(
      `disk-${broker}`,
      "critical",
      `A disk of broker ${broker} ${what}.`,
      what === "failed"
        ? "Its replicas there are offline until the broker is restarted with a disk that works."
        : "Appends fail until there is space again.",
      { path: "cluster", label: "Cluster" },
      chain(
        state.events.filter((event) => event.broker === broker && names.includes(event.name)),
        { events: names },
      ),
    ),
  );
}

/** @param {State} state @returns {Finding[]} */
export function throttleFindings(state) {
  const found = [];
  for (const { broker, name, facts } of all(state, "throttle")) {
    const id = `throttle-${broker}-${name}`;
    const view = { path: "throttles", label: "Throttles" };
    if (name === "replication") {
      const exceeded = Object.keys(facts)
        .filter((kind) => facts[kind]?.exceeded)
        .map((kind) => kind.replace("_", " "));
      if (exceeded.length) {
        found.push(
          finding(
            id,
            "note",
            `Broker ${broker} holds replication back by a throttle.`,
            `The limit is reached for: ${exceeded.join(", ")}. Replicas that are not in sync catch up more slowly.`,
            view,
            [],
          ),
        );
      }
    } else if (facts.num_muted > 0) {
      const clients = [
        ...new Set(
          (facts.muted || []).map((/** @type {any} */ row) => String(row.client_id || row.client)),
        ),
      ];
      found.push(
        finding(
          id,
          "note",
          `Broker ${broker} holds back ${count(facts.num_muted, "connection")} by a quota.`,
          `The clients ${few(clients)} have used more than their limit.`,
          view,
          [],
        ),
      );
    }
  }
  return found;
}

/** @param {State} state @returns {Finding[]} */
export function stallFindings(state) {
  const recent = state.events.filter(
    ({ name, at }) => name === "loop_stalled" && state.at - at < STALLS_FOR_MS,
  );
  return [...byKey(recent, ({ broker, facts }) => String(broker ?? facts.broker))].map(
    ([broker, events]) => {
      const worst = Math.max(...events.map(({ facts }) => Number(facts.stalled_ms) || 0));
      return finding(
        `stall-${broker}`,
        worst >= 1000 ? "warning" : "note",
        `The event loop of broker ${broker} stood still for up to ${number(worst)} ms.`,
        `It happened ${events.length === 1 ? "once" : `${number(events.length)} times`} within a minute. Meanwhile the broker serves no request.`,
        { path: "requests", label: "Requests" },
        chain(events, { events: ["loop_stalled"] }),
      );
    },
  );
}
