/**
 * The lag of a group over time: a line a partition, and committed and end offset beside each other.
 * @module
 */
import { number, time } from "./format.js";
import { html, useRef, useState } from "./html.js";
import { worst } from "./lag_history.js";
import { Lines } from "./lines.js";
import { Twin } from "./twin.js";

const MAX_LINES = 8;

/** @param {{group: string, history: import("./lag_history.js").LagHistory}} props */
export function LagLines({ group, history }) {
  const [chosen, setChosen] = useState("");
  const first = useRef(""); // the partition with the greatest lag when the group was opened
  const lines = worst(history, MAX_LINES);
  if (lines.length === 0) return null;
  first.current ||= worst(history, 1)[0].name;
  const known = (/** @type {string} */ one) => history.lines.some((line) => line.name === one);
  const name = [chosen, first.current].find(known) ?? lines[0].name;
  const line = /** @type {import("./lag_history.js").PartitionLine} */ (history.lines.find((one) => one.name === name));
  const more = history.lines.length - lines.length;
  const rows = history.at.map((at, i) => ({ at, i })).reverse();
  const last = (/** @type {(number|null)[]} */ values) => number(values.at(-1));
  const tools = html`<label class="inline">partition
    <select value=${name} onChange=${(/** @type {any} */ event) => setChosen(event.target.value)}>
      ${history.lines.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}
    </select></label>`;
  return html`<div class="two">
    <${Twin} title="Lag by partition" rows=${rows} rowKey=${(/** @type {any} */ row) => row.at}
      about=${more > 0 ? `The ${MAX_LINES} partitions with the greatest lag; ${more} more are in the table of offsets.` : "Records between the committed offset and the end, for each partition."}
      columns=${[
        { key: "at", title: "time", render: (/** @type {any} */ row) => time(row.at) },
        ...lines.map((one) => ({ key: one.name, title: one.name, align: "right", value: (/** @type {any} */ row) => one.lag[row.i] })),
      ]}>
      <${Lines} at=${history.at} series=${lines.map((one) => ({ label: one.name, values: one.lag }))}
        label=${`Lag of group ${group}: ${lines.map((one) => `${one.name} ${last(one.lag)}`).join(", ")}`} />
    <//>
    <${Twin} title="Committed and end" rows=${rows} rowKey=${(/** @type {any} */ row) => row.at} tools=${tools}
      about="The shaded gap between the two lines is the lag."
      columns=${[
        { key: "at", title: "time", render: (/** @type {any} */ row) => time(row.at) },
        { key: "committed", title: "committed", align: "right", value: (/** @type {any} */ row) => line.committed[row.i] },
        { key: "end", title: "end offset", align: "right", value: (/** @type {any} */ row) => line.end[row.i] },
        { key: "lag", title: "lag", align: "right", value: (/** @type {any} */ row) => line.lag[row.i] },
      ]}>
      <${Lines} at=${history.at} fill=${true}
        series=${[{ label: "end offset", values: line.end }, { label: "committed", values: line.committed }]}
        label=${`${name}: committed ${last(line.committed)}, end offset ${last(line.end)}`} />
    <//>
  </div>`;
}
