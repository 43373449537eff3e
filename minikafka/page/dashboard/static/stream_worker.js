/**
 * The one stream of all tabs: a SharedWorker that holds one EventSource. HTTP/1.1 allows a browser
 * six connections a host, so tabs with a stream each would soon wait for each other.
 *
 * Tabs send {visible: true|false} and {closed: true}. They receive {messages: [...]} and
 * {status: "open"|"trying"|"refused"|"stopped"}. A tab that becomes visible gets all that is known.
 */

import { emptyState, reduceAll, snapshotOf } from "./reducer.js";

const BATCH_MS = 40; // messages of so long are sent to the tabs together
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

export class Stream {
  /** @param {string} url of the SSE stream */
  constructor(url) {
    this.url = url;
    this.state = emptyState();
    /** @type {Set<{postMessage: (data: any) => void}>} tabs that are visible */
    this.visible = new Set();
    /** @type {any[]} */
    this.batch = [];
    this.batchTimer = 0;
    this.retryTimer = 0;
    this.failures = 0;
    this.lastId = "";
    this.status = "stopped";
    /** @type {EventSource|null} */
    this.events = null;
  }

  /** @param {{postMessage: (data: any) => void}} tab @param {boolean} visible */
  show(tab, visible) {
    if (!visible) {
      this.visible.delete(tab);
      if (this.visible.size === 0) this.stop();
      return;
    }
    if (this.visible.has(tab)) return;
    this.flush();
    this.visible.add(tab);
    if (this.state.hello) tab.postMessage({ messages: snapshotOf(this.state) });
    tab.postMessage({ status: this.status });
    if (!this.events && !this.retryTimer) this.open();
  }

  open() {
    clearTimeout(this.retryTimer);
    this.retryTimer = 0;
    // Only an EventSource itself sends the header Last-Event-ID, and only when it reconnects.
    const query = this.lastId ? `?last_event_id=${encodeURIComponent(this.lastId)}` : "";
    const events = new EventSource(this.url + query);
    this.events = events;
    events.onopen = () => {
      this.failures = 0;
      this.tell("open");
    };
    events.onmessage = ({ data, lastEventId }) => {
      if (lastEventId) this.lastId = lastEventId;
      this.batch.push(JSON.parse(data));
      if (!this.batchTimer) this.batchTimer = setTimeout(() => this.flush(), BATCH_MS);
    };
    events.onerror = () => {
      const refused = events.readyState === EventSource.CLOSED; // by a status other than 200
      this.tell(refused ? "refused" : "trying");
      if (!refused) return; // it reconnects by itself
      this.events = null;
      const wait = RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)];
      this.retryTimer = setTimeout(() => this.open(), wait);
    };
  }

  stop() {
    clearTimeout(this.retryTimer);
    this.retryTimer = 0;
    this.flush();
    this.events?.close();
    this.events = null;
    this.tell("stopped");
  }

  flush() {
    clearTimeout(this.batchTimer);
    this.batchTimer = 0;
    if (this.batch.length === 0) return;
    const messages = this.batch;
    this.batch = [];
    this.state = reduceAll(this.state, messages);
    for (const tab of this.visible) tab.postMessage({ messages });
  }

  /** @param {string} status */
  tell(status) {
    this.status = status;
    for (const tab of this.visible) tab.postMessage({ status });
  }
}

/** @type {any} */
const scope = globalThis;
if (typeof scope.SharedWorkerGlobalScope === "function"
    && scope instanceof scope.SharedWorkerGlobalScope) {
  const stream = new Stream(new URL("../api/stream", import.meta.url).href);
  scope.onconnect = (/** @type {MessageEvent} */ { ports: [port] }) => {
    port.onmessage = ({ data }) => stream.show(port, data.visible === true);
    port.start();
  };
}
