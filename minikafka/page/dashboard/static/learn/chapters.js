/** The list of chapters, with how far the reader has come. */

import { html } from "../parts/html.js";
import { Dialog } from "./dialog.js";
import { readProgress } from "./progress.js";

/** @param {{session: import("./session.js").LearnSession, words: import("./words.js").Words,
 *   close: () => void}} props */
export function Chapters({ session, words, close }) {
  const { catalogue, playback } = session.model.value;
  const { chapters: known } = readProgress();
  const open = (/** @type {string} */ name) => {
    close();
    void session.open({ chapter: name });
  };
  return html`<${Dialog} title=${words.chapters} close=${close} words=${words} look="chapters">
    <ol class="chapter-list">${catalogue.chapters.map(({ name, number, title, summary, missions = [] }) => {
      const progress = known[name];
      const [sign, said] = progress?.done ? ["✓", words.finished] : progress ? ["◐", words.begun] : ["○", ""];
      return html`<li key=${name}><button aria-current=${name === playback?.chapter ? "true" : null}
        onClick=${() => open(name)}>
        <span class="chapter-sign" aria-hidden="true">${sign}</span>
        <span><b>${number}. ${title}</b>${said && html` <span class="pill quiet">${said}</span>`}<br />
          <span class="muted">${summary}</span>
          ${missions.length > 0 && html`<span class="chapter-missions muted mono">${missions.join(" ")}</span>`}</span>
      </button></li>`;
    })}</ol>
  <//>`;
}
