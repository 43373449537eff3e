/** The picture of a state machine of the controller: edges light up when they are taken. */

import { ago, count, time } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Node, Picture } from "../parts/svg.js";
import { Twin } from "../parts/twin.js";
import { BOX, drawn, edgeKey, heat, warmth } from "./state_machines.js";

/** @typedef {import("./state_machines.js").Machine} Machine */
/** @typedef {import("./state_machines.js").Transition} Transition */

/**
 * @param {{machine: Machine, transitions: Transition[], now: number, chosen: string,
 *   choose: (edge: string) => void}} props `chosen` is the key of an edge, or empty
 */
export function MachinePicture({ machine, transitions, now, chosen, choose }) {
  const heated = heat(transitions);
  const rows = machine.edges.map((edge) => {
    const found = heated.get(edgeKey(edge.from, edge.to));
    return { ...edge, key: edgeKey(edge.from, edge.to), heated: found, warm: warmth(found, now) };
  });
  const columns = [
    { key: "from", title: "From" },
    { key: "to", title: "To" },
    {
      key: "count",
      title: "Of the last transitions",
      value: (/** @type {any} */ row) => row.heated?.count ?? 0,
      align: /** @type {"right"} */ ("right"),
    },
    {
      key: "last",
      title: "Last",
      value: (/** @type {any} */ row) => row.heated?.lastMs ?? 0,
      render: (/** @type {any} */ row) => (row.heated ? time(row.heated.lastMs) : "–"),
    },
    {
      key: "example",
      title: "For example",
      value: (/** @type {any} */ row) => row.heated?.subjects.join(", ") ?? "",
    },
  ];
  return html`<${Twin} title=${machine.title} columns=${columns} rows=${rows} rowKey=${(/** @type {any} */ row) => row.key}
    about="All transitions that exist. A bright edge was taken within the last five seconds; its number says how often it occurs among the last transitions. Press an edge to list them.">
    <${Picture} label=${machine.title} width=${machine.width} height=${machine.height} class="machine">
      ${rows
        .slice()
        .sort((a, b) => RANK[a.warm] - RANK[b.warm])
        .map(
          (row) => html`<${EdgeLine} key=${row.key} machine=${machine}
        row=${row} now=${now} chosen=${row.key === chosen} choose=${choose} />`,
        )}
      ${machine.states.map(
        (state) => html`<${StateBox} key=${state.name} state=${state}
        lit=${rows.some(({ to, warm }) => to === state.name && warm === "recent")} />`,
      )}
    <//>
  <//>`;
}

/** @type {Object<string, number>} */
const RANK = { never: 0, seen: 1, recent: 2 };

/** @param {{machine: Machine, row: any, now: number, chosen: boolean, choose: (edge: string) => void}} props */
function EdgeLine({ machine, row, now, chosen, choose }) {
  const { path, tip, label } = drawn(machine, row);
  const taken = row.heated
    ? `${count(row.heated.count, "time")}, the last one ${ago(row.heated.lastMs, now)}`
    : "not among the last transitions";
  return html`<${Node} label=${`${row.from} to ${row.to}: ${taken}`} onClick=${() => choose(chosen ? "" : row.key)}
    class=${`edge ${row.warm} ${chosen ? "chosen" : ""}`} aria-pressed=${chosen}>
    <path class="edge-reach" d=${path} />
    <path class="edge-line" d=${path} />
    <path class="edge-tip" d="M7 0L-4 -5V5Z" transform=${`translate(${tip.x} ${tip.y}) rotate(${tip.turn})`} />
    ${
      row.heated &&
      html`<g transform=${`translate(${label.x} ${label.y})`}>
      <rect class="edge-plate" x=${-plate(row) / 2} y="-9" width=${plate(row)} height="18" rx="9" />
      <text class="edge-count" y="0.35em">${row.heated.count}</text></g>`
    }
  <//>`;
}

/** The width of the plate of a number. @param {any} row */
function plate(row) {
  return Math.max(24, 10 + 7 * String(row.heated.count).length);
}

/** @param {{state: import("./state_machines.js").MachineState, lit: boolean}} props */
function StateBox({ state, lit }) {
  const [first, second] = split(state.name);
  return html`<${Node} label=${`${state.name}: ${state.about}`} class=${`machine-state ${lit ? "lit" : ""}`}>
    <rect x=${state.x - BOX.width / 2} y=${state.y - BOX.height / 2} width=${BOX.width} height=${BOX.height} rx="9" />
    <text x=${state.x} y=${state.y - 2}>${first}</text>
    <text class="machine-kind" x=${state.x} y=${state.y + 13}>${second}</text>
  <//>`;
}

/** "ReplicaDeletionStarted" -> ["DeletionStarted", "Replica"]. @param {string} name */
function split(name) {
  const kind = name.startsWith("Replica") || name.endsWith("Replica") ? "Replica" : "Partition";
  return [name.replace(kind, ""), kind.toLowerCase()];
}
