/**
 * What is odd in a cluster, and why: a pure function of the page's state. Each finding has a
 * severity, a sentence, the chain of events that led there, and the view that shows it.
 */

import {
  brokerFindings,
  controllerFindings,
  diskFindings,
  stallFindings,
  throttleFindings,
} from "./why_brokers.js";
import { groupFindings, transactionFindings } from "./why_clients.js";
import { partitionFindings, partitionViews } from "./why_partitions.js";

/** @typedef {import("../reducer.js").State} State */
/** @typedef {import("./event_chains.js").Link} Link */
/**
 * @typedef {"critical"|"warning"|"note"} Severity
 * @typedef {{id: string, kind: string, severity: Severity, title: string, detail: string,
 *   partitions?: string[], count?: number, view: {path: string, label: string, params?: Record<string, string>}, chain: Link[]}} Finding
 *   `count` of the partitions, where only some are named
 * @typedef {{name: string, leader: number|null, replicas: number[], isr: number[],
 *   offline: number[], minIsr: number|null, internal: boolean, epoch: number}} PartitionView
 *   `epoch` of the leader
 */

const SEVERITIES = ["critical", "warning", "note"];

/**
 * Return what is odd, the worst first.
 *
 * @param {State} state
 * @returns {Finding[]}
 */
export function findings(state) {
  const partitions = partitionViews(state);
  const found = [
    ...controllerFindings(state),
    ...brokerFindings(state, partitions),
    ...partitionFindings(state, partitions),
    ...diskFindings(state),
    ...transactionFindings(state),
    ...groupFindings(state),
    ...throttleFindings(state),
    ...stallFindings(state),
  ];
  return found.sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
}
