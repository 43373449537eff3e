/** What is odd about transactions and consumer groups: parts of `findings` in why_findings.js. */

import { all, samples } from "../reducer.js";
import { chain } from "./event_chains.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {import("./why_findings.js").Finding} Finding */

const DECIDED_FOR_MS = 10_000; // markers are written within milliseconds, unless a broker is gone
const REBALANCING_FOR_MS = 10_000; // the first rebalance of a group takes three seconds
const LAG_WINDOW_MS = 10_000;
const LAG_SAMPLES = 4;

// ---- transactions

/** @param {State} state @returns {Finding[]} */
export function transactionFindings(state) {
  const found = [];
  for (const { name, coordinator, facts, at } of transactions(state)) {
    const age =
      typeof facts.start_ms === "number" && facts.start_ms >= 0 ? state.at - facts.start_ms : 0;
    const where = `Its coordinator is broker ${coordinator}; it writes to ${facts.num_partitions ?? (facts.partitions || []).length} partitions.`;
    if (facts.state === "Ongoing" && facts.timeout_ms > 0 && age > facts.timeout_ms) {
      found.push(
        transactionFinding(
          state,
          name,
          facts,
          `Transaction ${name} is open for ${seconds(age)}, longer than its time-out of ${seconds(facts.timeout_ms)}.`,
          `Consumers that read committed records wait at its first record. ${where}`,
        ),
      );
    }
    const decided = facts.state === "PrepareCommit" || facts.state === "PrepareAbort";
    const waited = state.at - (facts.last_update_ms ?? at);
    if (decided && waited > DECIDED_FOR_MS) {
      const unmarked = facts.unmarked
        ? `${facts.unmarked} ${facts.unmarked === 1 ? "partition has" : "partitions have"} no marker yet. `
        : "";
      found.push(
        transactionFinding(
          state,
          name,
          facts,
          `Transaction ${name} is decided (${facts.state}), and has waited for its markers for ${seconds(waited)}.`,
          `${unmarked}A leader that should write one may be gone. ${where}`,
        ),
      );
    }
  }
  return found;
}

/**
 * Return each transaction once: as its coordinator has it, else as the protocol has it. `at` is when
 * its facts changed last.
 *
 * @param {State} state
 */
function transactions(state) {
  /** @type {Map<string, {name: string, coordinator: any, facts: any, at: number}>} */
  const rows = new Map();
  for (const { name, facts, at } of all(state, "txn", null))
    rows.set(name, { name, coordinator: facts.coordinator, facts, at });
  for (const { name, broker, facts, at } of all(state, "transaction"))
    rows.set(name, { name, coordinator: broker, facts, at });
  return rows.values();
}

/**
 * @param {State} state @param {string} name @param {any} facts @param {string} title
 * @param {string} detail @returns {Finding}
 */
function transactionFinding(state, name, facts, title, detail) {
  return {
    id: `transaction-${name}`,
    kind: "stuck-transaction",
    severity: "warning",
    title,
    detail,
    partitions: facts.partitions || [],
    view: { path: "transactions", label: "Transactions" },
    chain: chain(state.events, {
      transactions: [name],
      partitions: facts.state === "Ongoing" ? [] : facts.partitions,
      names: [
        "transaction_timed_out",
        "marker_fenced",
        "partition_state_changed",
        "brokers_failed",
        "replica_failed",
        "offline_partition_leader_elected",
        "append_failed",
      ],
    }),
  };
}

// ---- groups

/** @param {State} state @returns {Finding[]} */
export function groupFindings(state) {
  return [...rebalanceFindings(state), ...lagFindings(state)];
}

/** @param {State} state @returns {Finding[]} */
function rebalanceFindings(state) {
  const found = [];
  for (const { name, facts, broker } of all(state, "group")) {
    const rebalancing =
      facts.state === "PreparingRebalance" || facts.state === "CompletingRebalance";
    const age = state.at - (facts.since_ms ?? state.at);
    if (!rebalancing || age < REBALANCING_FOR_MS) continue;
    const members = facts.members || [];
    const awaited =
      facts.state === "PreparingRebalance"
        ? members.filter((/** @type {any} */ m) => !m.awaits_join)
        : members.filter((/** @type {any} */ m) => !m.awaits_sync);
    const names = awaited
      .slice(0, 3)
      .map((/** @type {any} */ m) => m.client || m.member)
      .join(", ");
    const phase = facts.state === "PreparingRebalance" ? "join" : "sync";
    found.push(
      groupFinding(
        state,
        "stuck-rebalance",
        "warning",
        name,
        `Group ${name} has rebalanced for ${seconds(age)} (${facts.state}).`,
        awaited.length
          ? `Broker ${broker} waits until ${awaited.length} of ${members.length} members ${phase}: ${names}${awaited.length > 3 ? " and others" : ""}. Nobody consumes meanwhile.`
          : `All ${members.length} members wait for the end of the phase.`,
        ["isr_shrinking", "isr_expanding"],
      ),
    );
  }
  return found;
}

/** @param {State} state @returns {Finding[]} */
function lagFindings(state) {
  const found = [];
  for (const { name, facts } of all(state, "consumer_group", null)) {
    const lag = facts.lag ?? 0;
    if (lag <= 0) continue;
    if (facts.state === "Empty" || (facts.members || []).length === 0) {
      found.push(
        groupFinding(
          state,
          "idle-group",
          "note",
          name,
          `Group ${name} has ${lag} records to read, and no members.`,
          worst(facts),
          [],
        ),
      );
      continue;
    }
    const rate = growth(samples(state, null, "consumer_group", name));
    if (rate !== null) {
      found.push(
        groupFinding(
          state,
          "lagging-group",
          "warning",
          name,
          `Group ${name} lags more and more: by ${Math.max(1, Math.round(rate))} records a second, ${lag} in all.`,
          worst(facts),
          [],
        ),
      );
    }
  }
  return found;
}

/**
 * Return by how many records a second the lag has grown, or null if it has not: it must be larger at
 * the end of the last samples than in each third before.
 *
 * @param {{at: number, [name: string]: number}[]} rows
 */
export function growth(rows) {
  const last = rows.at(-1);
  if (!last) return null;
  const within = rows.filter(({ at }) => last.at - at <= 3 * LAG_WINDOW_MS);
  const span = last.at - within[0].at;
  if (within.length < LAG_SAMPLES || span < LAG_WINDOW_MS) return null;
  const third = Math.ceil(within.length / 3);
  const lows = [0, third, 2 * third].map((from) =>
    Math.min(...within.slice(from, from + third).map(({ lag }) => lag)),
  );
  const grows = lows.every((low, i) => i === 0 || !Number.isFinite(low) || low > lows[i - 1]);
  if (!grows || last.lag <= within[0].lag) return null;
  return ((last.lag - within[0].lag) * 1000) / span;
}

/** Name the partition with the most lag. @param {any} facts */
function worst(facts) {
  const rows = (facts.offsets || []).filter((/** @type {any} */ row) => row.lag > 0);
  if (!rows.length) return "";
  const most = rows.reduce((/** @type {any} */ a, /** @type {any} */ b) => (b.lag > a.lag ? b : a));
  return `Most of it is in ${most.topic}-${most.partition}: ${most.lag} records, from offset ${most.committed ?? "none"} to ${most.log_end_offset}.`;
}

/**
 * @param {State} state @param {string} kind @param {"warning"|"note"} severity @param {string} group
 * @param {string} title @param {string} detail @param {string[]} never names that do not belong
 * @returns {Finding}
 */
function groupFinding(state, kind, severity, group, title, detail, never) {
  const links = chain(state.events, { groups: [group] });
  return {
    id: `${kind}-${group}`,
    kind,
    severity,
    title,
    detail,
    view: { path: "groups", label: "Groups" },
    chain: links.filter(({ name }) => !never.includes(name)),
  };
}

/** @param {number} ms */
function seconds(ms) {
  return `${Math.round(ms / 1000)} s`;
}
