/**
 * The page of learn mode: the views of the page over a simulated cluster, with the story beside
 * them and the transport below. Its state comes by requests, see session.js.
 */

import { noApi } from "../api.js";
import { html, render, useEffect, useRef, useState } from "../parts/html.js";
import { Navigation, useSignal, Viewed } from "../parts/shell.js";
import { applyTheme, ThemeSwitch } from "../parts/theme.js";
import { hashOf, readAddress, route } from "../route.js";
import { learnViews, VIEWS } from "../views/index.js";
import { ActionsDialog } from "./actions.js";
import { Chapters } from "./chapters.js";
import { markFocus, placeOfFocus } from "./focus.js";
import { KeysDialog, listenForKeys } from "./keys.js";
import { currentBeat } from "./model.js";
import { readProgress } from "./progress.js";
import { RecipeDialog } from "./recipe.js";
import { LearnSession } from "./session.js";
import { openSource, readMode } from "./source.js";
import { Story } from "./story.js";
import { Transport } from "./transport.js";
import { firstLanguage, wordsOf } from "./words.js";

const FOLLOW = "minikafka.learn.follow";

async function start() {
  applyTheme();
  learnViews([
    { path: "stage", title: "Stage", key: "s" },
    { path: "wire", title: "Messages", key: "m" },
  ], ["records", "registry", "connect", "access"]);
  readAddress();
  const place = /** @type {Element} */ (document.getElementById("app"));
  const tell = (/** @type {string} */ sentence) => {
    const shown = place.querySelector(":scope > .empty");
    if (shown) shown.textContent = sentence;
    else console.error(sentence);
  };
  try {
    const mode = await readMode();
    const session = new LearnSession(openSource(mode, tell), mode.language ?? firstLanguage());
    await session.request({ do: "catalogue", language: session.language.value });
    if (!wantedOf(route.value.params)) await openFirst(session, mode);
    place.replaceChildren();
    render(html`<${App} session=${session} documents=${mode.documents ?? ""} />`, place);
  } catch (error) {
    tell(/** @type {Error} */ (error).message);
  }
}

/** Return what an address asks to open, or null. @param {Object<string, string>} params */
function wantedOf({ chapter, recipe }) {
  if (recipe) return { fragment: recipe };
  return chapter ? { chapter } : null;
}

/** Open what the command line named, else the chapter where the reader was, else the first.
 * @param {LearnSession} session @param {import("./source.js").Mode} mode */
async function openFirst(session, mode) {
  const { chapters } = session.model.value.catalogue;
  const { last } = readProgress();
  const known = chapters.some(({ name }) => name === last) ? last : chapters[0]?.name;
  if (mode.fragment) await session.open({ fragment: mode.fragment }, mode.t_us);
  else await session.open({ chapter: mode.chapter ?? known ?? "playground" });
}

/** @param {{session: LearnSession, documents: string}} props `documents`: where a link to them leads */
function App({ session, documents }) {
  const state = useSignal(session.state);
  const model = useSignal(session.model);
  const language = useSignal(session.language);
  const { path, params } = useSignal(route);
  const [dialog, setDialog] = useState("");
  const [follow, setFollow] = useState(() => localStorage.getItem(FOLLOW) !== "no");
  const words = wordsOf(language);
  const view = VIEWS.find((one) => one.path === path) ?? VIEWS[0];
  // A dialog reports late that it has closed: another one may be open by then.
  const close = () => setDialog((/** @type {string} */ now) => (now === dialog ? "" : now));
  useEffect(() => {
    const wanted = wantedOf(params);
    if (!wanted) return;
    const { chapter, recipe, t, ...rest } = params;
    history.replaceState(null, "", hashOf(path, rest));
    readAddress();
    void session.open(wanted, Number(t) || 0);
  }, [params]);
  useEffect(() => listenForKeys(session, {
    help: () => setDialog("help"), chapters: () => setDialog("chapters"),
    recipe: () => setDialog("recipe"), act: () => setDialog("act"),
  }), []);
  useFocus(model, follow, path);
  useViewChange(view);
  return html`
    <${Header} session=${session} words=${words} open=${setDialog} documents=${documents} />
    <div class="body learn-body">
      <${Navigation} current=${view} />
      <main id="main" tabindex="-1" aria-label=${view.title}>
        ${model.problem && html`<p class="notice bad" role="alert">${model.problem}</p>`}
        <h1>${view.title}</h1>
        <${Viewed} key=${path} path=${path} state=${state} params=${params} api=${noApi} session=${session} />
      </main>
      <${Story} session=${session} follow=${follow} openChapters=${() => setDialog("chapters")}
        setFollow=${(/** @type {boolean} */ on) => {
          localStorage.setItem(FOLLOW, on ? "yes" : "no");
          setFollow(on);
        }} />
    </div>
    <${Transport} session=${session} />
    ${dialog === "help" && html`<${KeysDialog} words=${words} close=${close} />`}
    ${dialog === "chapters" && html`<${Chapters} session=${session} words=${words} close=${close} />`}
    ${dialog === "recipe" && html`<${RecipeDialog} session=${session} words=${words} close=${close} />`}
    ${dialog === "act" && html`<${ActionsDialog} session=${session} words=${words} close=${close} />`}`;
}

/** Open the view that a new sentence is about, and mark its entities. A reader who scrubs back stays
 * in the view.
 * @param {import("./model.js").Model} model @param {boolean} follow @param {string} path */
function useFocus(model, follow, path) {
  const current = currentBeat(model);
  const focus = current?.focus ?? [];
  const chapter = model.playback?.chapter ?? "";
  const key = `${chapter} ${current?.number} ${focus}`;
  const last = useRef({ chapter: "", number: 0 });
  useEffect(() => {
    const number = current?.number ?? 0;
    const isNew = chapter !== last.current.chapter || number > last.current.number;
    last.current = { chapter, number };
    const place = follow && isNew ? placeOfFocus(focus) : null;
    if (place && place !== location.hash) location.hash = place;
  }, [key, follow]);
  useEffect(() => markFocus(focus), [key, path]);
}

/** @param {{path: string, title: string}} view */
function useViewChange(view) {
  const first = useRef(true);
  useEffect(() => {
    document.title = `${view.title} – minikafka learn`;
    const { activeElement } = document;
    // The reader's place in the story stays where it is.
    const elsewhere = activeElement?.closest(".story, .transport, .top");
    if (!first.current && !elsewhere) document.getElementById("main")?.focus({ preventScroll: true });
    first.current = false;
    scrollTo(0, 0);
  }, [view]);
}

/** @param {{session: LearnSession, words: import("./words.js").Words, open: (dialog: string) => void,
 *   documents: string}} props */
function Header({ session, words, open, documents }) {
  const language = useSignal(session.language);
  return html`<header class="top">
    <a class="brand" href="#/stage"><img src="static/icon.svg" alt="" width="28" height="28" />
      <span>minikafka learn</span></a>
    <span class="spread"></span>
    ${documents && html`<a href=${documents}>${words.documents}</a>`}
    <button class="small" onClick=${() => open("act")}>${words.act} …</button>
    <button class="small" onClick=${() => open("recipe")}>${words.link}</button>
    <span class="choice" role="group" aria-label=${words.language}>
      ${[["en", "English"], ["zh", "中文"]].map(([code, name]) => html`<button key=${code} class="small" lang=${code}
        aria-pressed=${language === code} onClick=${() => session.setLanguage(code)}>${name}</button>`)}</span>
    <${ThemeSwitch} />
    <button class="icon-button" onClick=${() => open("help")} aria-label=${words.help} title=${`${words.help} (?)`}>
      <span aria-hidden="true">?</span></button>
  </header>`;
}

void start();
