/** A colour and a shape for each kind of message, so that colour never stands alone. */

import { html } from "../parts/html.js";

/** @type {[string, string, string, string[]][]} title, colour, shape, APIs */
const GROUPS = [
  ["Produce", "var(--set-2)", "square", ["Produce"]],
  ["Fetch", "var(--set-1)", "circle", ["Fetch", "ListOffsets", "OffsetForLeaderEpoch"]],
  ["of the controller", "var(--set-6)", "diamond", ["LeaderAndIsr", "UpdateMetadata", "StopReplica"]],
  ["to the controller", "var(--set-4)", "triangle",
    ["AlterPartition", "ControlledShutdown", "ElectLeaders", "AlterPartitionReassignments", "CreateTopics",
      "DeleteTopics", "CreatePartitions", "AllocateProducerIds"]],
  ["groups", "var(--set-3)", "hexagon",
    ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"]],
  ["transactions", "var(--set-5)", "pentagon",
    ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit"]],
  ["others", "var(--set-8)", "bar", []],
];
const BY_API = new Map(GROUPS.flatMap((group) => group[3].map((api) => [api, group])));
const SHAPES = /** @type {Object<string, string>} */ ({
  square: "M-5-5H5V5H-5Z", circle: "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0Z", diamond: "M0-7 7 0 0 7-7 0Z",
  triangle: "M0-6.5 6.5 5H-6.500Z", hexagon: "M-3-5.500H3L6.5 0 3 5.500H-3L-6.5 0Z",
  pentagon: "M0-6.5 6.3-1.5 4 6H-4L-6.3-1.500Z", bar: "M-6-3H6V3H-6Z",
});

/** @param {string} api @returns {{title: string, color: string, path: string}} */
export function markOf(api) {
  const [title, color, shape] = BY_API.get(api) ?? GROUPS[GROUPS.length - 1];
  return { title, color, path: SHAPES[shape] };
}

/** Requests are filled, responses hollow. */
export function ApiLegend() {
  return html`<ul class="legend api-legend" aria-label="Legend">${GROUPS.map(([title, , , apis]) => {
    const { color, path } = markOf(apis[0] ?? "");
    return html`<li key=${title}><svg width="18" height="18" viewBox="-9 -9 18 18" aria-hidden="true"><path d=${path}
      style=${{ fill: color }} class="flyer request" /></svg>${title}</li>`;
  })}<li><svg width="18" height="18" viewBox="-9 -9 18 18" aria-hidden="true"><path d=${SHAPES.circle}
    style=${{ stroke: "var(--set-1)" }} class="flyer response" /></svg>hollow: a response</li></ul>`;
}
