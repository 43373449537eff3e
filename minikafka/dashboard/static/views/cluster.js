/** The view "Cluster". */

import { Empty } from "../parts/empty.js";
import { html } from "../parts/html.js";

/** @param {{state: import("../reducer.js").State, api: import("../api.js").Api,
 *   go: (path: string, params?: Object<string, any>) => void, params: Object<string, string>}} props */
function Component({ state, api, go, params }) {
  return html`<${Empty}>This view is not written yet.<//>`;
}

export const view = { path: "cluster", title: "Cluster", key: "1", component: Component };
