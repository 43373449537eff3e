/**
 * A list of topics or groups with search, read page by page, so that 10,000 names cost no more
 * than a hundred.
 *
 * A live page reads it from the page's process; a recording has only the entities of its state.
 * @module
 */
import { go, replace } from "../route.js";
import { number } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { sortRows, Table } from "./table.js";

const PAGE = 100;
const SEARCH_AFTER_MS = 150;
const REFRESH_MS = 5000;

/**
 * @typedef {{rows: any[], matching: number, total: number, more: boolean}} Page
 */

/**
 * Return one page of rows out of all rows, as the page's process would.
 * @param {any[]} rows
 * @param {(row: any) => string} nameOf
 * @param {string} search
 * @param {number} skip rows of earlier pages
 * @param {(rows: any[]) => any[]} [arranged] selects and sorts rows that are in the order of names
 * @returns {Page}
 */
export function pageOf(rows, nameOf, search, skip, arranged = (all) => all) {
  const word = search.toLowerCase();
  const byName = (/** @type {any} */ a, /** @type {any} */ b) => (nameOf(a) < nameOf(b) ? -1 : 1);
  const matching = arranged(rows.filter((row) => nameOf(row).toLowerCase().includes(word)).sort(byName));
  const shown = matching.slice(skip, skip + PAGE);
  return { rows: shown, matching: matching.length, total: rows.length, more: skip + shown.length < matching.length };
}

/**
 * `kind` is "topics", "groups" or "subjects"; the address of the view `path` has the search, the
 * number of the page, by what the list is sorted, and whether it has only what `isSick`; `local`
 * returns the rows of a recording; `changed` is any value whose change reads the page again (after
 * an act).
 * @param {{kind: string, path?: string, label: string, nameOf: (row: any) => string, columns: import("./table.js").Column[], href: (name: string) => string,
 *   params: Record<string, string>, isSick?: (row: any) => boolean, api: any, live: boolean, local: () => any[], changed?: any, tools?: any}} props
 */
export function NameList({ kind, path = kind, label, nameOf, columns, href, params, isSick, api, live, local, changed, tools }) {
  const { search = "" } = params;
  const at = Math.max(1, Math.trunc(Number(params.page)) || 1);
  const skip = (at - 1) * PAGE;
  const sort = sortOf(params.sort);
  const sick = params.sick === "1";
  const { page, problem } = usePage({ kind, search, skip, sort: params.sort, sick, api, live, changed });
  const name = { key: "name", title: "name", value: nameOf, render: (/** @type {any} */ row) =>
    html`<a href=${href(nameOf(row))} data-entity=${`${kind.slice(0, -1)}||${nameOf(row)}`}>${nameOf(row)}</a>` };
  const arranged = (/** @type {any[]} */ found) => sortRows(sick && isSick ? found.filter(isSick) : found, [name, ...columns], sort);
  const shown = live ? page : pageOf(local(), nameOf, search, skip, arranged);
  const rows = shown?.rows ?? [];
  const find = (/** @type {any} */ event) => replace(path, { ...params, search: event.target.value, page: null });
  const turn = (/** @type {number} */ to) => go(path, { ...params, page: to === 1 ? null : to });
  const first = skip + 1;
  const by = (/** @type {[string, boolean]} */ [key, descending]) =>
    replace(path, { ...params, sort: `${descending ? "-" : ""}${key}`, page: null });
  const only = (/** @type {any} */ event) => replace(path, { ...params, sick: event.target.checked ? 1 : null, page: null });
  const none = !shown ? "Reading…" : search ? `No ${sick ? "sick " : ""}name contains “${search}”.` : `There are no ${sick ? "sick " : ""}${label}.`;
  return html`<section class="name-list card" aria-label=${label}>
    <div class="toolbar">
      <label class="search"><span class="hidden">Search ${label}</span>
        <input type="search" name="search" placeholder=${`Search ${label}`} value=${search} onInput=${find} />
      </label>
      ${isSick && html`<label><input type="checkbox" name="sick" checked=${sick} onChange=${only} /> sick only</label>`}
      <span class="muted" role="status">${countText(shown, first, rows.length, label)}</span>
      <button type="button" disabled=${at === 1} onClick=${() => turn(at - 1)}>
        Previous
      </button>
      <button type="button" disabled=${!shown?.more} onClick=${() => turn(at + 1)}>
        Next
      </button>
      <span class="spread"></span>
      ${tools}
    </div>
    ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
    <${Table} caption=${`Table of ${label}`} columns=${[name, ...columns]} rows=${rows} rowKey=${nameOf} pageSize=${PAGE}
      sort=${sort ?? ["name", false]} onSort=${by} none=${none} />
  </section>`;
}

/** "-lag" is by lag, the most first. @param {string} [text] @returns {[string, boolean]|null} */
export function sortOf(text) {
  if (!text) return null;
  return text.startsWith("-") ? [text.slice(1), true] : [text, false];
}

/**
 * @param {Page | null} page
 * @param {number} first
 * @param {number} count
 * @param {string} label
 */
function countText(page, first, count, label) {
  if (!page) return "reading…";
  const total = number(page.total);
  if (count === 0) return `0 of ${total} ${label}`;
  const of = page.matching === page.total ? total : `${number(page.matching)} matching (${total} in all)`;
  if (count === page.total) return `${number(count)} ${count === 1 ? label.replace(/s$/, "") : label}`;
  return `${number(first)}–${number(first + count - 1)} of ${of}`;
}

/** A call that failed leaves the list without its rows. @param {any} failed */
function incomplete({ call, broker, error }) {
  return `${call ?? "A request"}${broker ? ` to broker ${broker}` : ""} failed, so rows may be missing: ${error}.`;
}

/**
 * Read a page from the page's process, again after some seconds and when something has changed.
 * @param {any} query
 * @returns {{page: Page | null, problem: string}}
 */
function usePage({ kind, search, skip, sort, sick, api, live, changed }) {
  const [page, setPage] = useState(/** @type {Page | null} */ (null));
  const [problem, setProblem] = useState("");
  const lastSearch = useRef(search);
  useEffect(() => {
    if (!live) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      try {
        const [by, descending] = sortOf(sort) ?? ["", false];
        const how = { sort: by, descending: descending ? 1 : null, sick: sick ? 1 : null };
        const found = await api.get(kind, { search, skip, limit: PAGE, ...how }, stop.signal);
        setPage({ rows: found[kind], matching: found.matching, total: found.total, more: found.more });
        setProblem((found.errors ?? []).map(incomplete).join(" "));
      } catch (error) {
        if (/** @type {Error} */ (error).name === "AbortError") return;
        setProblem(/** @type {Error} */ (error).message);
      }
      if (!stop.signal.aborted) timer = setTimeout(refresh, REFRESH_MS);
    };
    const refresh = () => {
      if (document.hidden) timer = setTimeout(refresh, REFRESH_MS);
      else void read();
    };
    timer = setTimeout(read, lastSearch.current === search ? 0 : SEARCH_AFTER_MS);
    lastSearch.current = search;
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [kind, search, skip, sort, sick, live, changed]);
  return { page, problem };
}
