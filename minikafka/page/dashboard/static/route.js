/** Addresses of views: "#/topics/orders?tab=acts" is the view topics with {name, tab}. */

import { signal } from "./vendor/signals.js";
import { VIEWS } from "./views/index.js";

/** @typedef {{path: string, params: Object<string, string>}} Route */

export const route = signal(parseHash(location.hash));
addEventListener("hashchange", () => { route.value = parseHash(location.hash); });

/** Return the view and the parameters of an address; the first view if there is none.
 * @param {string} hash @returns {Route} */
export function parseHash(hash) {
  const [place, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [path, ...rest] = place.split("/");
  /** @type {Object<string, string>} */
  const params = Object.fromEntries(new URLSearchParams(query));
  if (rest.length) params.name = decoded(rest.join("/"));
  return { path: VIEWS.some((view) => view.path === path) ? path : VIEWS[0].path, params };
}

/** An address that somebody has cut or typed may be no valid encoding: then it is the name as it is.
 * @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Return the address of a view, for links. Parameters that are null or "" are left out.
 * @param {string} path @param {Object<string, any>} [params] */
export function hashOf(path, params = {}) {
  const { name, ...others } = params;
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(others)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, String(value));
  }
  const place = name ? `/${encodeURIComponent(name)}` : "";
  return `#/${path}${place}${query.size ? `?${query}` : ""}`;
}

/** Read the address again: the views have changed, or its parameters were taken out. */
export function readAddress() {
  route.value = parseHash(location.hash);
}

/** Open a view: `go("topics", {name: "orders", tab: "acts"})`.
 * @param {string} path @param {Object<string, any>} [params] */
export function go(path, params = {}) {
  location.hash = hashOf(path, params);
}

/** Change the address of the view that is open without a step for "back".
 * @param {string} path @param {Object<string, any>} [params] */
export function replace(path, params = {}) {
  history.replaceState(history.state, "", hashOf(path, params));
  readAddress();
}

/** Return a parameter of the address of the view that is open, "" without it, and what changes it.
 * @param {string} name @returns {[string, (value: string|null) => void]} */
export function addressed(name) {
  const change = (/** @type {string|null} */ value) => {
    const { path, params } = route.value;
    replace(path, { ...params, [name]: value });
  };
  return [route.value.params[name] ?? "", change];
}
