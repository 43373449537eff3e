/**
 * Where messages come from while the cluster lives: the stream that all tabs share, or, where a
 * browser has no SharedWorker, a stream of this tab alone.
 */

import { Stream } from "./stream_worker.js";

/**
 * @typedef {Object} Listener
 * @property {(messages: any[]) => void} onMessages
 * @property {(status: "open"|"trying"|"refused"|"stopped") => void} onStatus
 */

/** Follow the cluster while this tab is visible. Returns a function that ends it.
 * @param {Listener} listener @returns {() => void} */
export function openSource(listener) {
  const receive = (/** @type {any} */ { messages, status }) => {
    if (messages) listener.onMessages(messages);
    if (status) listener.onStatus(status);
  };
  const show = sharedStream(receive) ?? ownStream(receive);
  const turn = () => show(!document.hidden);
  const leave = () => show(false);
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", turn);
  turn();
  return () => {
    document.removeEventListener("visibilitychange", turn);
    removeEventListener("pagehide", leave);
    removeEventListener("pageshow", turn);
    leave();
  };
}

/** @param {(data: any) => void} receive @returns {((visible: boolean) => void)|null} */
function sharedStream(receive) {
  if (typeof SharedWorker !== "function") return null;
  let worker;
  try {
    worker = new SharedWorker(new URL("./stream_worker.js", import.meta.url),
      { type: "module", name: "minikafka" });
  } catch {
    return null; // a browser may forbid workers, e.g. in private windows
  }
  worker.port.onmessage = ({ data }) => receive(data);
  worker.port.start();
  return (visible) => worker.port.postMessage({ visible });
}

/** @param {(data: any) => void} receive @returns {(visible: boolean) => void} */
function ownStream(receive) {
  const stream = new Stream("api/stream");
  const tab = { postMessage: receive };
  return (visible) => stream.show(tab, visible);
}
