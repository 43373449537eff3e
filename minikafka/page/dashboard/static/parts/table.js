/** A table that sorts by a click on a head and shows a page at a time. */

import { html, useMemo, useState } from "./html.js";
import { naturally } from "../reducer.js";
import { number } from "./format.js";

/**
 * @typedef {Object} Column
 * @property {string} key the name of the field in a row
 * @property {string} title
 * @property {(row: any) => any} [value] what it sorts by; default: the field
 * @property {(row: any) => any} [render] what a cell shows; default: the value
 * @property {"left"|"right"} [align]
 * @property {boolean} [sortable] default true
 */

/**
 * @param {Object} props
 * @param {string} props.caption what the rows are; read aloud, and shown if `showCaption`
 * @param {Column[]} props.columns
 * @param {any[]} props.rows
 * @param {(row: any) => string|number} [props.rowKey]
 * @param {number} [props.pageSize]
 * @param {[string, boolean]} [props.initialSort] key, and whether descending
 * @param {[string, boolean]|null} [props.sort] where the rows come sorted: by what, and `onSort` sorts them otherwise
 * @param {(sort: [string, boolean]) => void} [props.onSort]
 * @param {string} [props.none] said when there are no rows
 * @param {boolean} [props.showCaption]
 * @param {(row: any) => string} [props.rowClass]
 */
export function Table({
  caption, columns, rows, rowKey, pageSize = 50, initialSort, none = "Nothing to show.",
  showCaption = false, rowClass, sort: given = null, onSort,
}) {
  const [own, setOwn] = useState(initialSort ?? null);
  const sort = onSort ? given : own;
  const [page, setPage] = useState(0);
  const sorted = useMemo(() => (onSort ? rows : sortRows(rows, columns, sort)), [rows, onSort ? null : sort]);
  const pages = Math.max(1, Math.ceil(sorted.length / pageSize));
  const current = Math.min(page, pages - 1);
  const shown = sorted.slice(current * pageSize, (current + 1) * pageSize);
  const press = (/** @type {string} */ key) =>
    (onSort ?? setOwn)(sort && sort[0] === key ? [key, !sort[1]] : [key, false]);
  return html`<div class="table-box">
    <div class="table-wrap" role="region" aria-label=${caption} tabindex="0"><table>
      <caption class=${showCaption ? "" : "hidden"}>${caption}</caption>
      <thead><tr>${columns.map((column) => html`<${Head} key=${column.key} column=${column}
        sort=${sort} press=${press} />`)}</tr></thead>
      <tbody>
        ${shown.map((/** @type {any} */ row, /** @type {number} */ i) => html`<tr key=${rowKey ? rowKey(row) : i}
          class=${rowClass ? rowClass(row) : ""}>${columns.map((column) => html`<td
            key=${column.key} class=${column.align === "right" ? "num" : ""}>${
              cell(row, column)}</td>`)}</tr>`)}
        ${shown.length === 0 && html`<tr><td colspan=${columns.length} class="muted">${none}</td></tr>`}
      </tbody>
    </table></div>
    ${pages > 1 && html`<${Pager} page=${current} pages=${pages} total=${sorted.length}
      setPage=${setPage} />`}
  </div>`;
}

/** @param {{column: Column, sort: [string, boolean]|null, press: (key: string) => void}} props */
function Head({ column, sort, press }) {
  const sorted = sort && sort[0] === column.key ? (sort[1] ? "descending" : "ascending") : "none";
  const side = column.align === "right" ? "num" : "";
  if (column.sortable === false) return html`<th scope="col" class=${side}>${column.title}</th>`;
  const arrow = { ascending: "▲", descending: "▼", none: "" }[sorted];
  return html`<th scope="col" class=${side} aria-sort=${sorted}>
    <button class="sort" onClick=${() => press(column.key)}>${column.title}<span
      aria-hidden="true" class="arrow">${arrow}</span></button></th>`;
}

/** Buttons to the pages before and after. @param {{page: number, pages: number, total?: number,
 * setPage: (page: number) => void, what?: string}} props */
export function Pager({ page, pages, total, setPage, what = "rows" }) {
  if (pages <= 1) return null;
  return html`<nav class="pager" aria-label=${`Pages of ${what}`}>
    <button class="small" disabled=${page === 0} onClick=${() => setPage(page - 1)}>‹ Before</button>
    <span>page ${number(page + 1)} of ${number(pages)}${
      total === undefined ? "" : html`<span class="muted">, ${number(total)} ${what}</span>`}</span>
    <button class="small" disabled=${page >= pages - 1}
      onClick=${() => setPage(page + 1)}>Next ›</button>
  </nav>`;
}

/** @param {any} row @param {Column} column */
function valueOf(row, column) {
  return column.value ? column.value(row) : row[column.key];
}

/** @param {any} row @param {Column} column */
function cell(row, column) {
  if (column.render) return column.render(row);
  const value = valueOf(row, column);
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return Array.isArray(value) ? value.join(", ") : String(value);
}

/** @param {any[]} rows @param {Column[]} columns @param {[string, boolean]|null} sort */
export function sortRows(rows, columns, sort) {
  const column = sort && columns.find(({ key }) => key === sort[0]);
  if (!sort || !column) return rows;
  const sign = sort[1] ? -1 : 1;
  return rows.slice().sort((a, b) => sign * compare(valueOf(a, column), valueOf(b, column)));
}

/** Nothing sorts before something. @param {any} a @param {any} b */
function compare(a, b) {
  const none = (/** @type {any} */ value) => value === null || value === undefined;
  if (none(a) || none(b)) return Number(none(b)) - Number(none(a));
  if (typeof a === "number" && typeof b === "number") return a - b;
  return naturally(String(a), String(b));
}
