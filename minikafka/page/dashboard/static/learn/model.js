/**
 * What learn mode knows besides the page's state: beats of the story, messages of the wire, the
 * place of the playback, the catalogue. Pure: `learned` returns the next model.
 *
 * @typedef {{type: "say"|"ask"|"check", t_us: number, number: number, key: string, text: string,
 *   focus?: string[], code?: {path: string, name: string}[], missions?: string[],
 *   options?: string[], right?: number, why?: string, chosen?: number|null, held?: boolean}} Beat
 * @typedef {{number: number, source: string, target: string, api: string, correlation_id: number,
 *   request: boolean, sent_us: number, arrived_us: number|null, lost: boolean, held: boolean,
 *   size: number}} Wire
 * @typedef {{at: number, now_us: number, end_us: number, chapter: string, title: string,
 *   story: "playing"|"waiting"|"asking"|"done"|"left"|null, pace: number|null,
 *   actions: [number, string, Object<string, any>][], branches: any[], checkpoints: number[],
 *   failed: string|null, score: Object<string, any>|null, language: string}} Playback
 * @typedef {{name: string, kind: string, default: any, least: number, most: number,
 *   choices: string[]}} Argument
 * @typedef {{name: string, title: string, arguments: Argument[]}} Action
 * @typedef {{name: string, number: number, title: string, summary: string,
 *   missions: string[]}} Chapter
 * @typedef {Object} Model
 * @property {Playback|null} playback
 * @property {Beat[]} beats by number
 * @property {Map<number, Wire>} wire the last messages, by number
 * @property {{chapters: Chapter[], actions: Action[]}} catalogue
 * @property {{json: string, fragment: string, pytest: string}|null} recipe
 * @property {string} problem one sentence, or ""
 */

export const MAX_WIRE = 5000;

/** @returns {Model} */
export function emptyModel() {
  return {
    playback: null, beats: [], wire: new Map(), catalogue: { chapters: [], actions: [] },
    recipe: null, problem: "",
  };
}

/** True if the messages are a whole picture: what was known of the cluster before is over.
 * @param {any[]} messages */
export function isWholePicture(messages) {
  return messages.some(({ type, broker, reset }) => type === "state" && reset && broker === null);
}

/** @param {Model} model @param {any[]} messages @returns {Model} */
export function learned(model, messages) {
  const fresh = isWholePicture(messages);
  const next = { ...model, problem: "" };
  const beats = new Map(fresh ? [] : model.beats.map((beat) => [beat.number, beat]));
  const wire = new Map(fresh ? [] : model.wire);
  for (const message of messages) {
    switch (message.type) {
      case "say": case "ask": case "check":
        beats.set(message.number, message);
        break;
      case "wire":
        wire.set(message.number, message);
        break;
      case "playback":
        next.playback = message.chapter === null ? null : message; // null: nothing is open
        break;
      case "catalogue":
        next.catalogue = message;
        break;
      case "recipe":
        next.recipe = message;
        break;
      case "problem":
        next.problem = message.text;
        break;
      // The rest is the page's reducer's.
    }
  }
  next.beats = [...beats.values()].sort((a, b) => a.number - b.number);
  next.wire = wire;
  for (const number of wire.keys()) { // oldest first
    if (wire.size <= MAX_WIRE) break;
    wire.delete(number);
  }
  return next;
}

/** Return the beat that the reader is at: the last sentence or question. @param {Model} model */
export function currentBeat(model) {
  return model.beats.findLast(({ type }) => type !== "check");
}

/** Return the microseconds of the playback at which something was logged.
 * @param {Model} model @param {{at: number, t_us?: number}} event */
export function usOf({ playback }, { at, t_us: us }) {
  return us ?? (playback ? Math.max(0, playback.now_us - (playback.at - at) * 1000) : 0);
}
