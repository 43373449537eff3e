/** The bar at the bottom: play, step, run until, scrub, speed. */

import { html, useEffect, useState } from "../parts/html.js";
import { useSignal } from "../parts/shell.js";
import { Marks, marksOf } from "./marks.js";
import { clockText, paceAt, paceText, placeOf, STEPS } from "./pace.js";
import { wordsOf } from "./words.js";

const DRAW_MS = 100; // the clock is drawn so often while it plays

/** @param {{session: import("./session.js").LearnSession}} props */
export function Transport({ session }) {
  const model = useSignal(session.model);
  const state = useSignal(session.state);
  const language = useSignal(session.language);
  const words = wordsOf(language);
  const { playback } = model;
  const now = playback?.now_us ?? 0;
  const end = playback?.end_us ?? 0;
  const marks = marksOf(model, state.events, words);
  return html`<section class="player transport" aria-label=${words.play} lang=${language}>
    <${Buttons} session=${session} words=${words} story=${playback?.story ?? null} />
    <div class="player-seek">
      <${Marks} marks=${marks} end=${end} />
      <input type="range" min="0" max=${Math.max(1, end)} step="any" value=${now}
        aria-label=${words.place} aria-valuetext=${`${clockText(now)} / ${clockText(end)}`}
        onInput=${(/** @type {any} */ event) => session.scrub(Number(event.target.value))} />
    </div>
    <label class="hidden">${words.goTo} <select value="" onChange=${(/** @type {any} */ event) => {
      const { value } = event.target;
      event.target.value = "";
      if (value !== "") void session.scrub(value === "end" ? end : Number(value));
    }}>
      <option value="">–</option>
      <option value="0">${words.start}</option>
      ${marks.map(({ us, label }, i) => html`<option key=${i} value=${us}>${clockText(us)} ${label}</option>`)}
      <option value="end">${words.end}</option>
    </select></label>
    <${Clock} session=${session} now=${now} />
    <${Speed} session=${session} words=${words} />
    ${now < end && html`<p class="in-the-past">${words.past}</p>`}
  </section>`;
}

/** @param {{session: import("./session.js").LearnSession, words: import("./words.js").Words,
 *   story: string|null}} props */
function Buttons({ session, words, story }) {
  const playing = useSignal(session.playing);
  const busy = useSignal(session.busy);
  const step = (/** @type {"event"|"message"|"tick"} */ what, /** @type {string} */ label,
    /** @type {any} */ sign) => html`<button class="small" aria-label=${label} title=${label}
      onClick=${() => session.step(what)}>${sign}</button>`;
  return html`<div class="player-buttons">
    <button class="round" aria-label=${playing ? words.pause : words.play} disabled=${story === "asking"}
      onClick=${() => (playing ? session.pause() : session.play())}>
      <span aria-hidden="true">${playing ? "❚❚" : "▶"}</span></button>
    <button class="small" aria-label=${words.back} title=${`${words.back} (←)`}
      onClick=${() => session.back()}>‹</button>
    ${step("event", words.nextEvent, "› ●")}
    ${step("message", words.nextMessage, "› ✉")}
    ${step("tick", words.nextTick, "› ◷")}
    <label><span class="hidden">${words.until}</span><select class="until" value=""
      onChange=${(/** @type {any} */ event) => {
        const { value } = event.target;
        event.target.value = "";
        if (value) void session.runUntil(value);
      }}>
      <option value="">${words.until} …</option>
      ${Object.entries(words.untilNames).map(([value, text]) =>
        html`<option key=${value} value=${value}>${text}</option>`)}
    </select></label>
    <span class="busy" role="status">${busy && !playing && html`<span class="hidden">${words.working}</span>
      <span class="spinner" aria-hidden="true"></span>`}</span>
  </div>`;
}

/** @param {{session: import("./session.js").LearnSession, now: number}} props */
function Clock({ session, now }) {
  const playing = useSignal(session.playing);
  const [, draw] = useState(0);
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setInterval(() => draw((/** @type {number} */ n) => n + 1), DRAW_MS);
    return () => clearInterval(timer);
  }, [playing]);
  return html`<output class="player-time">${clockText(playing ? session.shownUs() : now)}</output>`;
}

/** @param {{session: import("./session.js").LearnSession, words: import("./words.js").Words}} props */
function Speed({ session, words }) {
  const pace = useSignal(session.pace);
  const text = paceText(pace, words);
  return html`<label class="player-speed"><span class="hidden">${words.speed}</span>
    <input type="range" min="0" max=${STEPS} step="1" value=${placeOf(pace)} aria-valuetext=${text}
      aria-label=${words.speed}
      onInput=${(/** @type {any} */ event) => session.setPace(paceAt(Number(event.target.value)))} />
    <span class="speed-words" aria-hidden="true">${text}</span></label>`;
}
