/** The dialog of the recipe: a link to this moment, a test, a file. */

import { copyText } from "../parts/clipboard.js";
import { html, useEffect, useState } from "../parts/html.js";
import { useSignal } from "../parts/shell.js";
import { hashOf, route } from "../route.js";
import { Dialog } from "./dialog.js";

/** Return the address that opens the page at this moment. A chapter without actions of the reader
 * needs only its name. @param {import("./model.js").Model} model */
export function linkOf({ playback, recipe }) {
  if (!playback) return "";
  const told = playback.story !== null && playback.story !== "left";
  if (!told && !recipe?.fragment) return "";
  const what = told ? { chapter: playback.chapter } : { recipe: recipe?.fragment };
  const { path } = route.value;
  return new URL(hashOf(path, { ...what, t: playback.now_us }), location.href).href;
}

/** @param {{session: import("./session.js").LearnSession, words: import("./words.js").Words,
 *   close: () => void}} props */
export function RecipeDialog({ session, words, close }) {
  const model = useSignal(session.model);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    session.pause();
    void session.request({ do: "recipe" });
  }, []);
  const { recipe } = model;
  const link = linkOf(model);
  const read = async (/** @type {any} */ event) => {
    const [file] = event.target.files;
    if (!file) return;
    try {
      const found = JSON.parse(await file.text());
      close();
      await session.open({ recipe: found });
    } catch {
      setProblem(words.badFile);
    }
  };
  return html`<${Dialog} title=${words.link} close=${close} words=${words} look="recipe">
    <p class="muted">${words.recipeAbout}</p>
    ${(problem || model.problem) && html`<p class="notice bad" role="alert">${problem || model.problem}</p>`}
    ${link ? html`<${Copied} title=${words.asLink} text=${link} words=${words} />`
      : html`<p class="muted">${words.longLink}</p>`}
    ${recipe && html`
      <${Copied} title=${words.asTest} text=${recipe.pytest} words=${words} />
      <${Copied} title=${words.asRecipe} text=${recipe.json} words=${words} more=${html`<button class="small"
        onClick=${() => save(`${model.playback?.chapter ?? "recipe"}.json`, recipe.json)}>${words.save}</button>`} />`}
    <label class="field file"><span>${words.open}</span><input type="file" accept=".json,application/json"
      onChange=${read} /></label>
  <//>`;
}

/** @param {{title: string, text: string, words: import("./words.js").Words, more?: any}} props */
function Copied({ title, text, words, more }) {
  const [done, setDone] = useState(false);
  const copy = async () => setDone(await copyText(text));
  return html`<section class="command" aria-label=${title}>
    <div class="command-head"><span>${title}</span><span class="row">${more}
      <button class="small" onClick=${copy}>${done ? words.copied : words.copy}</button></span></div>
    <pre class="recipe-text" tabindex="0" role="region" aria-label=${title}><code>${text}</code></pre></section>`;
}

/** @param {string} name @param {string} text */
function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
