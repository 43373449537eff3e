/**
 * The output of a command: JSON rows as a table, other JSON indented, text as it is.
 * @module
 */
import { html } from "./html.js";
import { Table } from "./table.js";

const MAX_ROWS = 200;

/**
 * @param {any} value
 * @returns {string}
 */
function cell(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/**
 * @param {any} value
 * @returns {boolean}
 */
function isTable(value) {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((row) => row !== null && typeof row === "object" && !Array.isArray(row))
  );
}

/** @param {{value: any}} props */
export function Output({ value }) {
  if (value === null || value === undefined || value === "") return null;
  if (isTable(value)) {
    const names = [...new Set(value.slice(0, MAX_ROWS).flatMap((/** @type {any} */ row) => Object.keys(row)))];
    return html`<${Table} caption="Output" rows=${value} pageSize=${20} columns=${names.map((name) => ({
      key: name,
      title: name.replaceAll("_", " "),
      align: typeof value[0][name] === "number" ? "right" : "left",
      render: (/** @type {any} */ row) => cell(row[name]),
    }))} />`;
  }
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return html`<pre class="output" tabindex="0" aria-label="Output">${text}</pre>`;
}
