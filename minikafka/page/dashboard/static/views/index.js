/** The views, in their order. Each file is loaded when it is first opened. */

/** @typedef {{path: string, title: string, key: string}} ViewName */

/** @type {ViewName[]} */
export const VIEWS = [
  { path: "cluster", title: "Cluster", key: "1" },
  { path: "lanes", title: "Partition lanes", key: "2" },
  { path: "controller", title: "Controller", key: "3" },
  { path: "purgatories", title: "Purgatories", key: "4" },
  { path: "groups", title: "Groups", key: "5" },
  { path: "transactions", title: "Transactions", key: "6" },
  { path: "requests", title: "Requests", key: "7" },
  { path: "sessions", title: "Fetch sessions", key: "8" },
  { path: "throttles", title: "Throttles", key: "9" },
  { path: "topics", title: "Topics", key: "0" },
  { path: "records", title: "Records", key: "r" },
  { path: "registry", title: "Registry", key: "s" },
  { path: "connect", title: "Connect", key: "c" },
  { path: "access", title: "Access", key: "a" },
  { path: "events", title: "Events", key: "e" },
  { path: "why", title: "Why", key: "w" },
];

/** @type {Set<string>} views that only learn mode has */
const OF_LEARN_MODE = new Set();

/** Put the views of learn mode first, and leave out those that need a process of a page.
 * @param {ViewName[]} first @param {string[]} without */
export function learnViews(first, without) {
  const others = VIEWS.filter(({ path }) => !without.includes(path));
  VIEWS.splice(0, VIEWS.length, ...first, ...others);
  for (const { path } of first) OF_LEARN_MODE.add(path);
}

/** @param {string} path @returns {Promise<any>} the view's component */
export async function loadView(path) {
  const module = await import(OF_LEARN_MODE.has(path) ? `../learn/${path}.js` : `./${path}.js`);
  return module.view.component;
}
