/** The frame that the page of a cluster and learn mode share: navigation, and the view that is open. */

import { go, hashOf } from "../route.js";
import { effect } from "../vendor/signals.js";
import { loadView, VIEWS } from "../views/index.js";
import { Empty } from "./empty.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

/** Draw again when a signal changes. @template T @param {{value: T}} source @returns {T} */
export function useSignal(source) {
  const [, draw] = useState(0);
  useLayoutEffect(() => effect(() => {
    void source.value;
    draw((/** @type {number} */ n) => n + 1);
  }), []);
  return source.value;
}

/** The component of a view, once its file is loaded.
 * @param {{path: string, state: any, params: any, api: any}} props */
export function Viewed({ path, ...props }) {
  const [loaded, setLoaded] = useState(/** @type {any} */ (null));
  const [failed, setFailed] = useState("");
  useEffect(() => {
    loadView(path).then((component) => setLoaded(() => component),
      (error) => setFailed(String(error.message ?? error)));
  }, []);
  if (failed) return html`<${Empty} title="This view could not be loaded.">${failed}<//>`;
  if (!loaded) return html`<${Empty}>Loading the view…<//>`;
  return html`<${loaded} ...${props} go=${go} />`;
}

/** @param {{current: {path: string}}} props */
export function Navigation({ current }) {
  const list = useRef(/** @type {HTMLElement|null} */ (null));
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current]);
  return html`<nav class="views" aria-label="Views" ref=${list}>
    ${VIEWS.map(({ path, title, key }) => html`<a key=${path} href=${hashOf(path)}
      aria-current=${path === current.path ? "page" : undefined} title=${`${title} (${key})`}>
      <span>${title}</span><kbd aria-hidden="true">${key}</kbd></a>`)}
  </nav>`;
}
