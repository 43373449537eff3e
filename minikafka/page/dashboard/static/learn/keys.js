/** The keys of learn mode, and the dialog that lists them. */

import { html } from "../parts/html.js";
import { VIEWS } from "../views/index.js";
import { go } from "../route.js";
import { placeOf, paceAt } from "./pace.js";
import { Dialog } from "./dialog.js";

/** Call what keys stand for, where no field, button or link needs them itself.
 * @param {import("./session.js").LearnSession} session
 * @param {{help: () => void, chapters: () => void, recipe: () => void, act: () => void}} open
 * @returns {() => void} stops it */
export function listenForKeys(session, open) {
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {Element} */ (event.target);
    if (target.closest("input, textarea, select, [contenteditable], dialog[open], [role=menu]")) return;
    const pressed = event.key === " " || event.key === "Enter";
    if (pressed && target.closest("button, a, summary, [role=button]")) return;
    if (event.key.startsWith("Arrow") && target.closest("[role=region]")) return;
    if (doKey(session, open, event)) event.preventDefault();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

/** @param {import("./session.js").LearnSession} session @param {any} open @param {KeyboardEvent} event
 * @returns {boolean} whether the key stands for something */
function doKey(session, open, { key, shiftKey }) {
  const story = session.model.value.playback?.story;
  const pace = (/** @type {number} */ by) => session.setPace(paceAt(placeOf(session.pace.value) + by));
  /** @type {Object<string, () => void>} */
  const keys = {
    " ": () => (session.playing.value ? session.pause() : session.play()),
    Enter: () => void (story === "waiting" && session.goOn()),
    ArrowRight: () => void session.step(shiftKey ? "message" : "event"),
    ArrowLeft: () => void session.back(),
    Home: () => void session.scrub(0),
    End: () => void session.scrub(session.end),
    t: () => void session.step("tick"),
    "+": () => pace(5),
    "-": () => pace(-5),
    c: open.chapters, l: open.recipe, a: open.act, "?": open.help,
  };
  const view = VIEWS.find((one) => one.key === key);
  if (keys[key]) keys[key]();
  else if (view) go(view.path);
  else return false;
  return true;
}

/** @param {{words: import("./words.js").Words, close: () => void}} props */
export function KeysDialog({ words, close }) {
  const row = (/** @type {string[]} */ keys, /** @type {any} */ what) => html`<tr><td>${
    keys.map((key) => html`<kbd key=${key}>${key}</kbd> `)}</td><td>${what}</td></tr>`;
  return html`<${Dialog} title=${words.help} close=${close} words=${words} look="help">
    <div class="help-columns">
      <table><caption>${words.story}</caption><tbody>
        ${row(["space"], `${words.goOn}, ${words.play}, ${words.pause}`)}
        ${row(["Enter"], words.goOn)}
        ${row(["→"], words.nextEvent)}
        ${row(["Shift →"], words.nextMessage)}
        ${row(["t"], words.nextTick)}
        ${row(["←"], words.back)}
        ${row(["Home"], `${words.goTo} ${words.start}`)}
        ${row(["End"], `${words.goTo} ${words.end}`)}
        ${row(["+", "-"], words.speed)}
        ${row(["a"], words.actions)}
        ${row(["c"], words.chapters)}
        ${row(["l"], words.link)}
        ${row(["?"], words.help)}
        ${row(["Esc"], words.close)}
      </tbody></table>
      <table><caption>Views</caption><tbody>${VIEWS.map(({ key, title }) => row([key], title))}</tbody></table>
    </div>
  <//>`;
}
