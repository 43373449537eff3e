/**
 * A list of topics or groups with search, read page by page, so that 10,000 names cost no more
 * than a hundred.
 *
 * A live page reads it from the page's process; a recording has only the entities of its state.
 * @module
 */
import { go, replace } from "../route.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { Table } from "./table.js";

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
 * @returns {Page}
 */
export function pageOf(rows, nameOf, search, skip) {
  const word = search.toLowerCase();
  const byName = (/** @type {any} */ a, /** @type {any} */ b) => (nameOf(a) < nameOf(b) ? -1 : 1);
  const matching = rows.filter((row) => nameOf(row).toLowerCase().includes(word)).sort(byName);
  const shown = matching.slice(skip, skip + PAGE);
  return { rows: shown, matching: matching.length, total: rows.length, more: skip + shown.length < matching.length };
}

/**
 * `kind` is "topics" or "groups", and the path of its view, whose address has the search and the
 * number of the page; `local` returns the rows of a recording; `changed` is any value
 * whose change reads the page again (after an act).
 * @param {{kind: string, label: string, nameOf: (row: any) => string, columns: import("./table.js").Column[], href: (name: string) => string,
 *   params: Record<string, string>, api: any, live: boolean, local: () => any[], changed?: any, tools?: any}} props
 */
export function NameList({ kind, label, nameOf, columns, href, params, api, live, local, changed, tools }) {
  const { search = "" } = params;
  const number = Math.max(1, Math.trunc(Number(params.page)) || 1);
  const skip = (number - 1) * PAGE;
  const { page, problem } = usePage({ kind, search, skip, api, live, changed });
  const shown = live ? page : pageOf(local(), nameOf, search, skip);
  const rows = shown?.rows ?? [];
  const find = (/** @type {any} */ event) => replace(kind, { ...params, search: event.target.value, page: null });
  const turn = (/** @type {number} */ to) => go(kind, { ...params, page: to === 1 ? null : to });
  const first = skip + 1;
  const name = { key: "name", title: "name", render: (/** @type {any} */ row) =>
    html`<a href=${href(nameOf(row))} data-entity=${`${kind.slice(0, -1)}||${nameOf(row)}`}>${nameOf(row)}</a>` };
  const all = [name, ...columns].map((column) => ({ sortable: false, ...column }));
  const none = !shown ? "Reading…" : search ? `No name contains “${search}”.` : `There are no ${label}.`;
  return html`<section class="name-list card" aria-label=${label}>
    <div class="toolbar">
      <label class="search"><span class="hidden">Search ${label}</span>
        <input type="search" name="search" placeholder=${`Search ${label}`} value=${search} onInput=${find} />
      </label>
      <span class="muted" role="status">${countText(shown, first, rows.length, label)}</span>
      <button type="button" disabled=${number === 1} onClick=${() => turn(number - 1)}>
        Previous
      </button>
      <button type="button" disabled=${!shown?.more} onClick=${() => turn(number + 1)}>
        Next
      </button>
      <span class="spread"></span>
      ${tools}
    </div>
    ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
    <${Table} caption=${`Table of ${label}`} columns=${all} rows=${rows} rowKey=${nameOf} pageSize=${PAGE}
      none=${none} />
  </section>`;
}

/**
 * @param {Page | null} page
 * @param {number} first
 * @param {number} count
 * @param {string} label
 */
function countText(page, first, count, label) {
  if (!page) return "reading…";
  if (count === 0) return `0 of ${page.total} ${label}`;
  const of = page.matching === page.total ? `${page.total}` : `${page.matching} matching (${page.total} in all)`;
  if (count === page.total) return `${count} ${count === 1 ? label.replace(/s$/, "") : label}`;
  return `${first}–${first + count - 1} of ${of}`;
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
function usePage({ kind, search, skip, api, live, changed }) {
  const [page, setPage] = useState(/** @type {Page | null} */ (null));
  const [problem, setProblem] = useState("");
  const lastSearch = useRef(search);
  useEffect(() => {
    if (!live) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      try {
        const found = await api.get(kind, { search, skip, limit: PAGE }, stop.signal);
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
  }, [kind, search, skip, live, changed]);
  return { page, problem };
}
