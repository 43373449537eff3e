/**
 * A recording: messages with their times, played, stepped and scrubbed. Checkpoints every so many
 * messages make a step back as cheap as a step forward. States are immutable, so a checkpoint is
 * only a reference.
 */

import { emptyState, reduceAll } from "./reducer.js";

const CHECKPOINT = 200; // messages
export const SLOWEST = -6; // speed is 2 to the power of the slider's value
export const FASTEST = 6;

const TURNS = new Set([
  "controller_elected", "brokers_failed", "brokers_started", "offline_partition_leader_elected",
  "isr_shrunk", "isr_shrinking", "isr_expanded", "isr_expanding", "broker_started", "rebalance_prepared",
]);

export class Player {
  /** @param {any[]} [messages] in their order */
  constructor(messages = []) {
    /** @type {any[]} */
    this.messages = [];
    /** @type {number[]} of each message; an event may be older than what came before it */
    this.times = [];
    /** @type {import("./reducer.js").State[]} after 0, 200, 400 ... messages */
    this.checkpoints = [emptyState()];
    this.state = this.checkpoints[0];
    this.index = 0; // messages that `state` has
    this.clock = 0; // ms, of the recording
    this.playing = false;
    this.speed = 1;
    this.add(messages);
    this.clock = this.start;
  }

  /** @param {any[]} messages that come after those before */
  add(messages) {
    let latest = this.times.at(-1) ?? 0;
    for (const message of messages) {
      latest = Math.max(latest, message.at);
      this.messages.push(message);
      this.times.push(latest);
    }
  }

  get start() {
    return this.times[0] ?? 0;
  }

  get end() {
    return this.times.at(-1) ?? 0;
  }

  get length() {
    return this.messages.length;
  }

  /** Return the times of what matters most, for marks beside the slider: warnings, errors, and
   * the turns of a cluster. @returns {{at: number, name: string, bad: boolean}[]} */
  get landmarks() {
    /** @type {{at: number, name: string, bad: boolean}[]} */
    const found = [];
    this.messages.forEach(({ type, name, level }, i) => {
      const bad = level === "warning" || level === "error" || level === "critical";
      if (type !== "event" || !(bad || TURNS.has(name))) return;
      const last = found.at(-1);
      if (last && last.name === name && this.times[i] - last.at < 500) return;
      found.push({ at: this.times[i], name, bad });
    });
    return found;
  }

  get atEnd() {
    return this.index >= this.length;
  }

  /** Return the state after the first `index` messages. @param {number} index */
  stateAt(index) {
    const wanted = Math.max(0, Math.min(index, this.length));
    if (this.index <= wanted && wanted - this.index < CHECKPOINT) {
      return reduceAll(this.state, this.messages.slice(this.index, wanted));
    }
    while (this.checkpoints.length * CHECKPOINT <= wanted) {
      const from = (this.checkpoints.length - 1) * CHECKPOINT;
      const last = this.checkpoints[this.checkpoints.length - 1];
      this.checkpoints.push(reduceAll(last, this.messages.slice(from, from + CHECKPOINT)));
    }
    const nearest = Math.floor(wanted / CHECKPOINT);
    const rest = this.messages.slice(nearest * CHECKPOINT, wanted);
    return reduceAll(this.checkpoints[nearest], rest);
  }

  /** Return how many messages have happened until then. @param {number} ms of the recording */
  indexAt(ms) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= ms) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {number} ms of the recording */
  seek(ms) {
    this.clock = Math.max(this.start, Math.min(ms, this.end));
    this.#show(this.indexAt(this.clock));
  }

  /** Go some messages forward, or back if negative. @param {number} messages */
  step(messages) {
    this.playing = false;
    const index = Math.max(1, Math.min(this.index + messages, this.length));
    this.#show(index);
    this.clock = this.times[index - 1] ?? 0;
  }

  play() {
    if (this.atEnd) this.seek(this.start);
    this.playing = this.length > 0;
  }

  pause() {
    this.playing = false;
  }

  /** Let time pass while it plays. @param {number} elapsedMs of the reader's time */
  tick(elapsedMs) {
    if (!this.playing) return;
    this.seek(this.clock + elapsedMs * this.speed);
    if (this.atEnd) this.playing = false;
  }

  /** @param {number} index */
  #show(index) {
    this.state = this.stateAt(index);
    this.index = index;
  }
}

/** Return the messages of an NDJSON text. Raises SyntaxError with the number of a wrong line.
 * @param {string} text */
export function parseRecording(text) {
  const messages = [];
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; i++) {
    if (!lines[i].trim()) continue;
    try {
      messages.push(JSON.parse(lines[i]));
    } catch {
      throw new SyntaxError(`Line ${i + 1} of the recording is not JSON.`);
    }
  }
  return messages;
}

/** Fetch a recording. Raises Error with a sentence. @param {string} url */
export async function fetchRecording(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`There is no recording at ${url} (status ${response.status}).`);
  return new Player(parseRecording(await response.text()));
}

/** "×4", "×1/8". @param {number} speed a power of two */
export function speedText(speed) {
  return speed >= 1 ? `×${speed}` : `×1/${Math.round(1 / speed)}`;
}
