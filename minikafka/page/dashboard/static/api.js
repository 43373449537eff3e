/** Requests of the page to its process. Every failure is an Error with one sentence. */

/** @typedef {{get: typeof get, post: typeof post, do: typeof doAct}} Api */

/**
 * GET a path with parameters, e.g. `api.get("topics", {search: "orders"})`.
 * @param {string} path below /api/ @param {Object<string, any>} [parameters] null ones are left out
 * @param {AbortSignal} [signal] @returns {Promise<any>}
 */
async function get(path, parameters = {}, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const tail = query.size ? `?${query}` : "";
  return read(() => fetch(`api/${path}${tail}`, { signal }));
}

/** POST JSON. @param {string} path below /api/ @param {any} body @returns {Promise<any>} */
async function post(path, body) {
  return read(() => fetch(`api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  }));
}

/** Carry out an act, or only preview its command line.
 * @param {string} name @param {Object<string, any>} args
 * @param {{dry_run?: boolean, preview?: boolean}} [how]
 * @returns {Promise<{command: string, status?: number, output?: any, errors?: string}>} */
async function doAct(name, args, how = {}) {
  return post(`do/${encodeURIComponent(name)}`, {
    arguments: args, dry_run: how.dry_run ?? false, preview: how.preview ?? false,
  });
}

/** @param {() => Promise<Response>} send */
async function read(send) {
  let response;
  try {
    response = await send();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Error("The page's process does not respond. Does it still run?");
  }
  const text = await response.text();
  let found = null;
  try {
    found = text ? JSON.parse(text) : null;
  } catch {
    throw new Error(`The page's process sent no JSON (status ${response.status}).`);
  }
  if (response.status === 403) dispatchEvent(new Event("minikafka-refused")); // the sign-in may have ended
  if (!response.ok) throw new Error(found?.error ?? `The request failed (status ${response.status}).`);
  return found;
}

/** @type {Api} */
export const api = { get, post, do: doAct };

/** What recordings have instead: they have no process to send requests to. @type {Api} */
export const noApi = { get: refuse, post: refuse, do: refuse };

/** @returns {Promise<any>} */
async function refuse() {
  throw new Error("This is a recording: there is no cluster to send requests to.");
}
