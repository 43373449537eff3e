/**
 * A session of learn mode in this page: sends requests one after the other, keeps what comes back
 * in signals, and paces the playing.
 */

import { emptyState, reduceAll } from "../reducer.js";
import { signal } from "../vendor/signals.js";
import { emptyModel, isWholePicture, learned } from "./model.js";
import { within } from "./pace.js";
import { keepProgress } from "./progress.js";

const SLICE_MS = 50; // of the reader's time between two requests while it plays
const LONGEST_MS = 250; // a slice after a hidden tab or a slow request is not longer
const BUDGET_MS = 40;
const UNTIL_BUDGET_MS = 400;
const STANDING = new Set(["waiting", "asking", "done"]);
const FIRST_PACE = 100;
const STEPS = new Set(["step", "run_until", "act"]); // a step back undoes them
const MAX_STOPS = 500;

/** @template T @typedef {{value: T}} Signal */

export class LearnSession {
  /** @param {import("./source.js").Source} source @param {string} language */
  constructor(source, language) {
    this.source = source;
    /** @type {Signal<import("../reducer.js").State>} */
    this.state = signal(emptyState());
    /** @type {Signal<import("./model.js").Model>} */
    this.model = signal(emptyModel());
    /** @type {Signal<boolean>} */
    this.playing = signal(false);
    /** @type {Signal<boolean>} a request that takes longer is on its way */
    this.busy = signal(false);
    /** @type {Signal<number>} microseconds of the cluster in a millisecond of the reader */
    this.pace = signal(FIRST_PACE);
    /** @type {Signal<string>} */
    this.language = signal(language);
    this.factor = 1; // how much faster than the story suggests the reader plays
    /** @type {number[]} where it stood before the last steps, for a step back */
    this.stops = [];
    this.frame = { fromUs: 0, toUs: 0, since: 0, lasts: SLICE_MS }; // what `shownUs` moves along
    this.queue = Promise.resolve();
    this.telling = false; // the story's next step is on its way
    /** @type {{chapter?: string, recipe?: any, fragment?: string}|null} */
    this.opened = null;
    /** @type {number|null} */
    this.wantedUs = null; // of a scrub that has not been sent yet
  }

  // ------------------------------------------------------------------------------------ requests

  /** Send a request when those before have been served. Never rejects: failures become the
   * model's problem. @param {import("./source.js").Request} body @returns {Promise<any[]>} */
  request(body) {
    const sent = this.queue.then(async () => {
      if (STEPS.has(body.do) && this.stops.at(-1) !== this.now) {
        this.stops = [...this.stops.slice(-MAX_STOPS), this.now];
      }
      const patience = setTimeout(() => { this.busy.value = true; }, 150);
      try {
        const messages = await this.source.request(body);
        this.#receive(messages);
        return messages;
      } catch (error) {
        this.playing.value = false;
        if (/** @type {any} */ (error).lost && body.do !== "open") void this.#openAgain();
        this.model.value = { ...this.model.value, problem: /** @type {Error} */ (error).message };
        return [];
      } finally {
        clearTimeout(patience);
        this.busy.value = false;
      }
    });
    this.queue = sent.then(() => undefined);
    return sent;
  }

  /** @param {any[]} messages */
  #receive(messages) {
    const before = this.model.value.playback;
    const fresh = isWholePicture(messages);
    // There is no process of a page behind this cluster: views show what the messages say.
    const shown = messages.map((message) =>
      (message.type === "hello" ? { ...message, live: false } : message));
    const base = fresh ? { ...emptyState(), hello: this.state.value.hello } : this.state.value;
    const model = learned(this.model.value, messages);
    const now = model.playback;
    this.state.value = reduceAll(base, shown);
    this.model.value = model;
    if (!now) return;
    this.#moveFrame(before?.now_us ?? 0, now.now_us, fresh);
    if (now.pace && now.pace !== before?.pace) this.pace.value = within(now.pace * this.factor);
    if (now.failed || (now.story !== before?.story && STANDING.has(now.story ?? ""))) {
      this.playing.value = false;
    }
    keepProgress(now, model.beats);
  }

  // ------------------------------------------------------------------------------------- playing

  get now() {
    return this.model.value.playback?.now_us ?? 0;
  }

  get story() {
    return this.model.value.playback?.story ?? null;
  }

  get end() {
    return this.model.value.playback?.end_us ?? 0;
  }

  /** Return the time to draw moving things at: it passes evenly between two responses. */
  shownUs() {
    const { fromUs, toUs, since, lasts } = this.frame;
    return fromUs + (toUs - fromUs) * Math.min(1, (performance.now() - since) / lasts);
  }

  /** @param {number} beforeUs @param {number} nowUs @param {boolean} jumped */
  #moveFrame(beforeUs, nowUs, jumped) {
    const moving = this.playing.value && !jumped && nowUs >= beforeUs;
    const fromUs = moving ? Math.max(this.shownUs(), beforeUs - 20 * (nowUs - beforeUs)) : nowUs;
    this.frame = { fromUs, toUs: nowUs, since: performance.now(), lasts: SLICE_MS * 1.3 };
  }

  play() {
    const { playback } = this.model.value;
    if (this.playing.value || !playback || playback.failed) return;
    if (playback.story === "waiting") void this.goOn();
    else if (playback.story !== "asking") void this.#run();
  }

  pause() {
    this.playing.value = false;
  }

  async #run() {
    this.playing.value = true;
    let last = performance.now() - SLICE_MS;
    while (this.playing.value) {
      const begun = performance.now();
      const passed = Math.min(LONGEST_MS, begun - last) * this.pace.value;
      last = begun;
      await this.request({
        do: "advance", to_us: Math.round(this.now + passed), budget_ms: BUDGET_MS,
      });
      await delay(Math.max(0, begun + SLICE_MS - performance.now()));
    }
  }

  /** @param {number} pace that the reader has chosen */
  setPace(pace) {
    this.pace.value = within(pace);
    this.factor = this.pace.value / (this.model.value.playback?.pace || this.pace.value);
  }

  /** @param {"event"|"message"|"tick"} what @param {Object<string, any>} [more] */
  step(what, more = {}) {
    this.pause();
    return this.request({ do: "step", what, ...more });
  }

  /** Play until something has happened; each request has a bound of work.
   * @param {string} what see the contract of `run_until` */
  async runUntil(what) {
    this.pause();
    this.playing.value = true;
    while (this.playing.value) {
      const before = this.now;
      const found = await this.request({ do: "run_until", what, budget_ms: UNTIL_BUDGET_MS });
      const reached = found.find(({ type }) => type === "playback")?.reached;
      if (reached !== false || this.now === before) break;
    }
    this.playing.value = false;
  }

  /** Go to a time. Of many wishes while a request is on its way, only the last is sent.
   * @param {number} us */
  async scrub(us) {
    this.pause();
    const pending = this.wantedUs !== null;
    this.wantedUs = Math.max(0, Math.round(us));
    if (pending) return;
    await this.queue;
    const to = this.wantedUs;
    this.wantedUs = null;
    await this.request({ do: "scrub", to_us: to });
  }

  /** Go to where it stood before the last step, sentence or action. */
  back() {
    const { beats, playback } = this.model.value;
    const places = [0, ...this.stops, ...beats.map(({ t_us }) => t_us),
      ...(playback?.actions ?? []).map(([t]) => t)];
    const to = Math.max(0, ...places.filter((us) => us < this.now));
    this.stops = this.stops.filter((us) => us < to);
    return this.scrub(to);
  }

  // --------------------------------------------------------------------------------------- story

  /** @param {{chapter?: string, recipe?: any, fragment?: string}} what @param {number} [us] */
  async open(what, us) {
    this.pause();
    this.stops = [];
    this.factor = 1;
    this.opened = what;
    await this.request({ do: "open", ...what, language: this.language.value });
    if (us) await this.request({ do: "scrub", to_us: us });
    else if (this.story === "playing") void this.#run(); // it begins without a sentence
  }

  /** Exchange what is played for another branch, before the two part. @param {number} number */
  toBranch(number) {
    this.pause();
    this.stops = [];
    return this.request({ do: "branch", number });
  }

  /** A lost session is opened again; what the reader did in it is lost. */
  async #openAgain() {
    const { opened, now } = this;
    if (opened) await this.open(opened, now);
  }

  /** Go on after a sentence, and play. */
  async goOn() {
    if (this.story === "waiting") await this.#tell({ do: "continue" });
  }

  /** @param {number} choice */
  async answer(choice) {
    if (this.story === "asking") await this.#tell({ do: "answer", choice });
  }

  /** A second click on the same button says nothing new. @param {import("./source.js").Request} body */
  async #tell(body) {
    if (this.telling) return;
    this.telling = true;
    await this.request(body);
    this.telling = false;
    if (this.story === "playing") await this.#run();
  }

  /** @param {string} name @param {Object<string, any>} args */
  async act(name, args) {
    const plays = this.playing.value;
    this.pause();
    await this.request({ do: "act", name, arguments: args });
    if (plays && !this.model.value.problem) await this.#run();
  }

  /** @param {string} language */
  async setLanguage(language) {
    this.language.value = language;
    localStorage.setItem("minikafka.language", language);
    await this.request({ do: "catalogue", language });
    if (this.model.value.playback) await this.request({ do: "language", language });
  }
}

/** @param {number} ms */
function delay(ms) {
  return new Promise((resolve) => { setTimeout(resolve, ms); });
}
