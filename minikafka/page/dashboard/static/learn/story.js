/** The panel of the story: its sentences, questions and checks, and what they point at. */

import { html, useEffect, useRef } from "../parts/html.js";
import { useSignal } from "../parts/shell.js";
import { currentBeat } from "./model.js";
import { clockText } from "./pace.js";
import { Score } from "./score.js";
import { SourceLink } from "./source_text.js";
import { wordsOf } from "./words.js";

/** @typedef {import("./model.js").Beat} Beat */
/** @typedef {import("./words.js").Words} Words */
/** @typedef {{number: number, fork_us: number, end_us: number}} Branch */

/** @param {{session: import("./session.js").LearnSession, follow: boolean,
 *   setFollow: (on: boolean) => void, openChapters: () => void}} props */
export function Story({ session, follow, setFollow, openChapters }) {
  const model = useSignal(session.model);
  const language = useSignal(session.language);
  const words = wordsOf(language);
  const { playback, beats, catalogue } = model;
  const list = useRef(/** @type {HTMLElement|null} */ (null));
  const current = currentBeat(model);
  useEffect(() => {
    const box = list.current;
    if (box) box.scrollTop = box.scrollHeight;
  }, [beats.length, playback?.story]);
  const chapter = catalogue.chapters.find(({ name }) => name === playback?.chapter);
  return html`<aside class="story" aria-label=${words.story} lang=${language}>
    <header class="story-head">
      <h2>${chapter ? `${chapter.number}. ` : ""}${playback?.title ?? words.opening}</h2>
      <button class="small" onClick=${openChapters}>${words.chapters}</button>
    </header>
    <div class="beats" ref=${list} tabindex="0" role="region" aria-label=${playback?.title ?? words.story}>
      <ol>${beats.map((beat) => (beat.type === "check"
        ? html`<${Check} key=${beat.number} beat=${beat} words=${words} />`
        : html`<${Said} key=${beat.number} beat=${beat} current=${beat === current} words=${words}
            session=${session} story=${playback?.story ?? null} />`))}</ol>
      <${Score} playback=${playback} words=${words} />
    </div>
    <${Foot} session=${session} words=${words} chapter=${chapter ?? null} />
    <label class="inline follow"><input type="checkbox" checked=${follow}
      onChange=${(/** @type {any} */ event) => setFollow(event.target.checked)} /> ${words.follow}</label>
    <p class="hidden" aria-live="polite">${current?.text ?? ""}</p>
  </aside>`;
}

/** A sentence or a question. @param {{beat: Beat, current: boolean, words: Words,
 *   session: import("./session.js").LearnSession, story: string|null}} props */
function Said({ beat, current, words, session, story }) {
  const { type, text, t_us: us, code = [], missions = [] } = beat;
  return html`<li class=${`beat ${type} ${current ? "current" : ""}`} aria-current=${current ? "step" : null}>
    <button class="beat-time" title=${words.backHere} aria-label=${`${words.backHere}: ${clockText(us)}`}
      onClick=${() => session.scrub(us)}>${clockText(us)}</button>
    <p>${paragraphs(text)}</p>
    ${type === "ask" && html`<${Question} beat=${beat} words=${words} session=${session}
      open=${current && story === "asking"} />`}
    ${(code.length > 0 || missions.length > 0) && html`<p class="beat-links">
      ${code.map((one) => html`<${SourceLink} key=${one.path + one.name} code=${one} session=${session} words=${words} />`)}
      ${missions.map((row) => html`<span key=${row} class="tag" title=${`${words.missions}: ${row}`}>${row}</span>`)}</p>`}
  </li>`;
}

/** @param {{beat: Beat, words: Words, session: import("./session.js").LearnSession, open: boolean}} props */
function Question({ beat, words, session, open }) {
  const { options = [], right, why, chosen = null } = beat;
  const first = useRef(/** @type {HTMLButtonElement|null} */ (null));
  useEffect(() => {
    const { activeElement } = document;
    // A reader who goes on by keys finds the first answer under the next key.
    if (open && (activeElement === document.body || activeElement?.id === "main")) {
      first.current?.focus({ preventScroll: true });
    }
  }, [open]);
  const done = !open;
  const mark = (/** @type {number} */ i) => (done && i === right ? "✓" : done && i === chosen ? "✗" : "");
  return html`<div class="question" role="group" aria-label=${beat.text}>
    ${options.map((option, i) => html`<button key=${i} ref=${i === 0 ? first : null} disabled=${done}
      class=${`option ${mark(i) === "✓" ? "right" : mark(i) ? "wrong" : ""}`} aria-pressed=${done ? i === chosen : null}
      onClick=${() => session.answer(i)}><span aria-hidden="true">${mark(i)}</span> ${option}</button>`)}
    ${done && chosen !== null && html`<p class=${chosen === right ? "verdict good" : "verdict warn"}><b>${
      chosen === right ? words.right : words.wrong}</b> ${why}</p>`}
    ${done && chosen === null && why && html`<p class="verdict">${why}</p>`}
  </div>`;
}

/** @param {{beat: Beat, words: Words}} props */
function Check({ beat, words }) {
  return html`<li class="beat check"><span class="tick" aria-hidden="true">${beat.held === false ? "✗" : "✓"}</span>
    <span class="hidden">${words.checked} </span>${beat.text}</li>`;
}

/** What the reader can do next. @param {{session: import("./session.js").LearnSession, words: Words,
 *   chapter: import("./model.js").Chapter|null}} props */
function Foot({ session, words, chapter }) {
  const { playback, catalogue } = useSignal(session.model);
  const playing = useSignal(session.playing);
  const story = playback?.story ?? null;
  const next = chapter && catalogue.chapters.find(({ number }) => number === chapter.number + 1);
  const here = playback?.chapter;
  return html`<div class="story-foot" data-story=${story ?? "none"}>
    ${story === "waiting" && html`<button class="primary" onClick=${() => session.goOn()}>${words.goOn}
      <kbd aria-hidden="true">␣</kbd></button>`}
    ${story === "asking" && html`<p class="muted">${words.asking}</p>`}
    ${story === "playing" && html`<p class="muted">${playing ? words.working : words.stands}</p>`}
    ${story === "done" && html`<p class="good notice">${words.done}</p>
      ${next && html`<button class="primary" onClick=${() => session.open({ chapter: next.name })}>${words.next}: ${next.title}</button>`}
      <button onClick=${() => session.open({ chapter: here })}>${words.again}</button>`}
    ${story === "left" && html`<p class="notice quiet">${words.left}</p>
      <button onClick=${() => session.open({ chapter: here })}>${words.returnTo}</button>`}
    <${Branches} session=${session} words=${words} branches=${playback?.branches ?? []} />
    ${playback?.failed && html`<p class="notice bad" role="alert">${words.failed} ${playback.failed}</p>`}
  </div>`;
}

/** What the reader left behind by acting in the past.
 * @param {{session: import("./session.js").LearnSession, words: Words, branches: Branch[]}} props */
function Branches({ session, words, branches }) {
  if (branches.length === 0) return null;
  return html`<details class="branches"><summary>${words.branches} (${branches.length})</summary>
    <ul>${branches.map(({ number, fork_us: at }) => html`<li key=${number}><button class="small"
      onClick=${() => session.toBranch(number)}>${words.branch(number, clockText(at))}</button></li>`)}</ul>
  </details>`;
}

/** Words between backquotes are code. @param {string} text */
function paragraphs(text) {
  return text.split("`").map((part, i) => (i % 2 ? html`<code key=${i}>${part}</code>` : part));
}
