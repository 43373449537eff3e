/**
 * The view "Groups": a list of groups of all types, and one group with its phase, members and lag.
 * @module
 */
import { all } from "../reducer.js";
import { html } from "../parts/html.js";
import { lagTime, number } from "../parts/format.js";
import { NameList } from "../parts/name_list.js";
import { GroupDetail } from "../parts/group_detail.js";
import { BrokerName } from "../parts/svg.js";
import { PhaseMark } from "../parts/group_phase.js";

/** @param {any} props */
function Groups({ state, api, go, params }) {
  if (params.name) return html`<${GroupDetail} key=${params.name} name=${params.name} state=${state} api=${api} go=${go} />`;
  const live = state.hello?.live !== false;
  const known = new Map(all(state, "consumer_group").map(({ name, facts }) => [name, facts]));
  const lagOf = (/** @type {any} */ row) => known.get(row.group)?.lag ?? row.lag;
  const columns = [
    { key: "type", title: "type", render: (/** @type {any} */ row) => row.type || "classic" },
    { key: "state", title: "phase", value: (/** @type {any} */ row) => row.state, render: (/** @type {any} */ row) => html`<${PhaseMark} phase=${known.get(row.group)?.state ?? row.state} />` },
    { key: "lag", title: "lag", align: /** @type {const} */ ("right"), value: lagOf, render: (/** @type {any} */ row) => number(lagOf(row)) },
    ...(live ? [{ key: "lag_ms", title: "lag in time", align: /** @type {const} */ ("right"), render: (/** @type {any} */ row) => lagTime(row) }] : []),
    { key: "members", title: "members", sortable: false, align: /** @type {const} */ ("right"), render: (/** @type {any} */ row) => number(known.get(row.group)?.members?.length) },
    { key: "protocol_type", title: "protocol type" },
    { key: "coordinator", title: "coordinator", render: (/** @type {any} */ row) => html`<${BrokerName} broker=${row.coordinator} />` },
  ];
  return html`<${NameList} kind="groups" label="groups" nameOf=${(/** @type {any} */ row) => row.group}
    columns=${columns} href=${(/** @type {string} */ name) => `#/groups/${encodeURIComponent(name)}`}
    params=${params} isSick=${isSick} api=${api} live=${live} local=${() => groupsOf(state)} />`;
}

/** @param {any} row */
function isSick(row) {
  return ["Dead", "PreparingRebalance", "CompletingRebalance"].includes(row.state);
}

/**
 * Return the groups of a recording: those of the protocol, and those that brokers report.
 * @param {import("../reducer.js").State} state
 * @returns {any[]}
 */
export function groupsOf(state) {
  /** @type {Map<string, any>} */
  const rows = new Map();
  for (const { name, broker, facts } of all(state, "group")) {
    rows.set(name, { group: name, type: facts.type, state: facts.state, protocol_type: null, coordinator: broker });
  }
  for (const { name, facts } of all(state, "consumer_group")) rows.set(name, facts);
  return [...rows.values()];
}

export const view = { path: "groups", title: "Groups", key: "5", component: Groups };
