/**
 * Where the messages of learn mode come from: a process of `minikafka learn`, or a worker of this
 * tab in which the same Python runs. Both serve one request after the other.
 */

import { keepOffline } from "./offline.js";

/**
 * @typedef {{do: string, [more: string]: any}} Request
 * @typedef {{request: (body: Request) => Promise<any[]>}} Source
 * @typedef {{mode: string, worker?: boolean, chapter?: string, fragment?: string,
 *   language?: string, t_us?: number, documents?: string}} Mode
 */

/** Read how this page is served. @returns {Promise<Mode>} */
export async function readMode() {
  const response = await fetch("api/mode");
  if (!response.ok) throw new Error("This page is not served by `minikafka learn`.");
  return response.json();
}

/** @param {Mode} mode @param {(sentence: string) => void} onProgress what a worker does meanwhile
 * @returns {Source} */
export function openSource(mode, onProgress) {
  return mode.worker ? workerSource(onProgress) : serverSource();
}

const LOST = 502; // the process that played this session has gone

/** @returns {Source} */
function serverSource() {
  const session = crypto.getRandomValues(new Uint32Array(4)).join("-");
  return {
    async request(body) {
      let response;
      try {
        response = await fetch(`api/learn?session=${session}`, {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify(body),
        });
      } catch {
        throw new Error("The process of `minikafka learn` does not respond. Does it still run?");
      }
      const found = await response.json().catch(() => null);
      if (response.ok && Array.isArray(found)) return found;
      const sentence = found?.error ?? `The request failed (status ${response.status}).`;
      throw Object.assign(new Error(sentence), { lost: response.status === LOST });
    },
  };
}

/** @param {(sentence: string) => void} onProgress @returns {Source} */
function workerSource(onProgress) {
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  /** @type {Map<number, {resolve: (messages: any[]) => void, reject: (error: Error) => void}>} */
  const waiting = new Map();
  let last = 0;
  const failAll = (/** @type {string} */ sentence) => {
    for (const { reject } of waiting.values()) reject(new Error(sentence));
    waiting.clear();
  };
  worker.onmessage = ({ data }) => {
    if (data.progress !== undefined) onProgress(data.progress);
    if (data.id === undefined) return;
    const found = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error) found?.reject(new Error(data.error));
    else found?.resolve(data.messages);
    if (data.id === 1) keepOffline(); // not earlier: the worker's own files come first
  };
  worker.onerror = (event) => failAll(event.message || "The simulation's worker could not start.");
  return {
    request: (body) => new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, { resolve, reject });
      worker.postMessage({ id, request: body });
    }),
  };
}
