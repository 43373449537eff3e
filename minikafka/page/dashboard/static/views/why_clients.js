/** What is odd about transactions and consumer groups: parts of `findings` in why_findings.js. */

import { all, samples } from "../reducer.js";
import { count, number } from "../parts/format.js";
import { chain } from "./event_chains.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {import("./why_findings.js").Finding} Finding */

const DECIDED_FOR_MS = 10_000; // markers are written within milliseconds, unless a broker is gone
const REBALANCING_FOR_MS = 10_000; // the first rebalance of a group takes three seconds
const LAG_WITHIN_MS = 60_000; // a shorter time says nothing
const LAG_SAMPLES = 12;
const COMMITS_EVERY_MS = 5000; // auto.commit.interval.ms: so much is no lag, but yet to be committed

// ---- transactions

/** @param {State} state @returns {Finding[]} */
export function transactionFindings(state) {
  const found = [];
  for (const { name, coordinator, facts, at } of transactions(state)) {
    const age =
      typeof facts.start_ms === "number" && facts.start_ms >= 0 ? state.at - facts.start_ms : 0;
    const where = `Its coordinator is broker ${coordinator}; it writes to ${count(facts.num_partitions ?? (facts.partitions || []).length, "partition")}.`;
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
        ? `${count(facts.unmarked, "partition")} ${facts.unmarked === 1 ? "has" : "have"} no marker yet. `
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
    view: { path: "transactions", label: "Transactions", params: { name } },
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
          ? `Broker ${broker} waits until ${number(awaited.length)} of ${number(members.length)} members ${phase}: ${names}${awaited.length > 3 ? " and others" : ""}. Nobody consumes meanwhile.`
          : `All ${number(members.length)} members wait for the end of the phase.`,
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
          `Group ${name} has ${count(lag, "record")} to read, and no members.`,
          worst(facts),
          [],
        ),
      );
      continue;
    }
    const grows = growth(samples(state, null, "consumer_group", name));
    if (grows !== null) {
      found.push(
        groupFinding(
          state,
          "lagging-group",
          "warning",
          name,
          `Group ${name} lags more and more: by ${count(Math.max(1, Math.round(grows.rate)), "record")} a second, ${number(lag)} in all.`,
          `Producers write ${count(Math.max(1, Math.round(grows.produced)), "record")} a second. ${worst(facts)}`,
          [],
        ),
      );
    }
  }
  return found;
}

/**
 * Return by how many records a second the lag has grown, and how many are written, or null if the
 * group keeps up. The least lag of each third must be larger than in the third before, and the
 * last one by more than producers write between two commits: a group that keeps up commits every
 * few seconds, and its lag goes up and down meanwhile by what is written.
 *
 * @param {{at: number, [name: string]: number}[]} rows
 * @returns {{rate: number, produced: number}|null}
 */
export function growth(rows) {
  const known = rows.filter(({ lag, end }) => Number.isFinite(lag) && Number.isFinite(end));
  if (known.length < LAG_SAMPLES) return null;
  const [first, last] = [known[0], /** @type {{at: number, end: number}} */ (known.at(-1))];
  const span = last.at - first.at;
  if (span < LAG_WITHIN_MS) return null;
  const produced = (last.end - first.end) / span;
  const lows = [0, 1, 2].map((third) => {
    const from = first.at + (span * third) / 3;
    const some = known.filter(({ at }) => at >= from && at <= from + span / 3);
    return some.reduce((least, one) => (one.lag < least.lag ? one : least), { at: 0, lag: Infinity });
  });
  const grown = lows[2].lag - lows[0].lag;
  const rises = lows[0].lag < lows[1].lag && lows[1].lag < lows[2].lag;
  if (!rises || !Number.isFinite(grown) || grown <= produced * COMMITS_EVERY_MS) return null;
  return { rate: (grown * 1000) / (lows[2].at - lows[0].at), produced: produced * 1000 };
}

/** Name the partition with the most lag. @param {any} facts */
function worst(facts) {
  const rows = (facts.offsets || []).filter((/** @type {any} */ row) => row.lag > 0);
  if (!rows.length) return "";
  const most = rows.reduce((/** @type {any} */ a, /** @type {any} */ b) => (b.lag > a.lag ? b : a));
  return `Most of it is in ${most.topic}-${most.partition}: ${count(most.lag, "record")}, from offset ${most.committed === null ? "none" : number(most.committed)} to ${number(most.log_end_offset)}.`;
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
    view: { path: "groups", label: "Groups", params: { name: group } },
    chain: links.filter(({ name }) => !never.includes(name)),
  };
}

/** @param {number} ms */
function seconds(ms) {
  return `${number(Math.round(ms / 1000))} s`;
}
