/** The controls of a recording: play, step, seek, speed. */

import { FASTEST, SLOWEST, speedText } from "../player.js";
import { duration, time } from "./format.js";
import { html, useEffect, useMemo, useState } from "./html.js";

const DRAW_MS = 60; // the views are drawn so often at most while it plays

/**
 * @param {{player: import("../player.js").Player, changed: () => void}} props `changed` is called
 * after the player's state or place has changed
 */
export function PlayerBar({ player, changed }) {
  const [, draw] = useState(0);
  const act = (/** @type {() => void} */ action) => {
    action();
    draw((/** @type {number} */ n) => n + 1);
    changed();
  };
  useEffect(() => {
    if (!player.playing) return undefined;
    let last = performance.now();
    let drawn = 0;
    let place = player.index;
    let frame = requestAnimationFrame(function next(now) {
      player.tick(now - last);
      last = now;
      if (now - drawn >= DRAW_MS || !player.playing) {
        drawn = now;
        draw((/** @type {number} */ n) => n + 1);
        if (player.index !== place || !player.playing) changed();
        place = player.index;
      }
      if (player.playing) frame = requestAnimationFrame(next);
    });
    return () => cancelAnimationFrame(frame);
  }, [player, player.playing]);
  const length = player.end - player.start;
  const landmarks = useMemo(() => player.landmarks, [player, player.length]);
  const place = player.clock - player.start;
  const turn = (/** @type {{at: number, name: string}} */ mark) =>
    act(() => player.seek(mark.at + 1));
  return html`<section class="player" aria-label="Recording">
    <div class="player-buttons">
      <button class="round" aria-label=${player.playing ? "Pause" : "Play"}
        onClick=${() => act(() => (player.playing ? player.pause() : player.play()))}>
        <span aria-hidden="true">${player.playing ? "❚❚" : "▶"}</span></button>
      <button class="small" aria-label="A message back"
        onClick=${() => act(() => player.step(-1))}>‹</button>
      <button class="small" aria-label="The next message"
        onClick=${() => act(() => player.step(1))}>›</button>
    </div>
    <label class="player-seek"><${Landmarks} marks=${landmarks} start=${player.start}
      length=${length} /><span class="hidden">Place in the recording</span>
      <input type="range" min="0" max=${Math.max(1, length)} step="1" value=${place}
        aria-valuetext=${`${duration(Math.round(place))} of ${duration(length)}`}
        onInput=${(/** @type {any} */ event) =>
          act(() => player.seek(player.start + Number(event.target.value)))} />
    </label>
    <label class="hidden">Go to <select value="" onChange=${(/** @type {any} */ event) =>
      turn(landmarks[Number(event.target.value)])}>
      <option value="">an event</option>
      ${landmarks.map((/** @type {any} */ { name, at }, /** @type {number} */ i) => html`<option key=${i} value=${i}>${time(at)} ${name}</option>`)}
    </select></label>
    <output class="player-time">${time(player.clock)}
      <span class="muted"> ${player.index} of ${player.length}</span></output>
    <label class="player-speed">speed
      <input type="range" min=${SLOWEST} max=${FASTEST} step="1" value=${Math.log2(player.speed)}
        aria-valuetext=${speedText(player.speed)}
        onInput=${(/** @type {any} */ event) =>
          act(() => { player.speed = 2 ** Number(event.target.value); })} />
      <span class="speed">${speedText(player.speed)}</span></label>
  </section>`;
}

/** Marks above the slider where something happened. @param {{marks: {at: number, name: string,
 * bad: boolean}[], start: number, length: number}} props */
function Landmarks({ marks, start, length }) {
  return html`<svg class="landmarks" viewBox="0 0 1000 10" preserveAspectRatio="none"
    aria-hidden="true">${marks.map(({ at, name, bad }, i) => html`<line key=${i} y1=${bad ? 0 : 4}
      y2="10" x1=${((at - start) / Math.max(1, length)) * 1000}
      x2=${((at - start) / Math.max(1, length)) * 1000} class=${bad ? "bad-mark" : "turn-mark"}
      vector-effect="non-scaling-stroke"><title>${name}</title></line>`)}</svg>`;
}
