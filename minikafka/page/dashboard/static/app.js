/**
 * The page: one state, one view at a time. Messages come from the live stream or from a recording;
 * views get `{state, api, go, params}` and draw.
 */

import { api, noApi } from "./api.js";
import { go, route } from "./route.js";
import { openSource } from "./source.js";
import { emptyState, reduceAll } from "./reducer.js";
import { fetchRecording } from "./player.js";
import { html, render, useEffect, useRef, useState } from "./parts/html.js";
import { dateTime } from "./parts/format.js";
import { HelpDialog, listenForKeys } from "./parts/keys.js";
import { PlayerBar } from "./parts/player_bar.js";
import { FoundRuns } from "./parts/runs.js";
import { Navigation, useSignal, Viewed } from "./parts/shell.js";
import { SignIn, Stranger, Who } from "./parts/sign_in.js";
import { applyTheme, ThemeSwitch } from "./parts/theme.js";
import { signal } from "./vendor/signals.js";
import { VIEWS } from "./views/index.js";

const store = signal(emptyState());
const status = signal(/** @type {"connecting"|"open"|"trying"|"refused"|"stopped"|"recording"} */ ("connecting"));
const player = signal(/** @type {import("./player.js").Player|null} */ (null));
const paused = signal(false); // live only: the shown state stays
const trouble = signal("");
const access = signal(/** @type {import("./parts/sign_in.js").Access|null} */ (null));

const ASK_AGAIN_MS = 1000;
const DRAW_MS = 100; // the views are drawn so often at most, however many messages come

/** Apply messages in batches. While paused, the shown state stays. */
function receiver() {
  let latest = store.value;
  /** @type {any[]} */
  let queue = [];
  let timer = 0;
  let flushed = 0;
  const flush = () => {
    timer = 0;
    flushed = performance.now();
    const messages = queue;
    queue = [];
    latest = reduceAll(latest, messages);
    if (!paused.value) store.value = latest;
  };
  paused.subscribe((/** @type {boolean} */ still) => { if (!still && !player.value) store.value = latest; });
  return (/** @type {any[]} */ messages) => {
    for (const message of messages) queue.push(message);
    if (!timer) timer = setTimeout(flush, Math.max(0, flushed + DRAW_MS - performance.now()));
  };
}

/** Show a recording from its start. @param {string} url */
async function playRecording(url) {
  try {
    const found = await fetchRecording(url);
    found.seek(found.start);
    player.value = found;
    status.value = "recording";
    store.value = found.state;
  } catch (error) {
    trouble.value = /** @type {Error} */ (error).message;
  }
}

/** Find out who this browser is to the page's process; false if it does not say. */
async function askWho() {
  try {
    access.value = await api.get("session");
    return true;
  } catch {
    return false; // if the process does not respond, the stream says so
  }
}

/** Show the cluster that the page's process follows, or the recording that it serves. */
async function followCluster() {
  await askWho();
  if (access.value?.may_read === false) return;
  const receive = receiver();
  const tellWho = () => access.value && receive([{ type: "access", at: 0, access: access.value }]);
  let greeted = false;
  let unsure = false; // the stream was lost: another process, with another token, may go on with it
  const checkWho = async () => {
    if (await askWho()) {
      unsure = false;
      tellWho();
      if (access.value?.may_read === false) close();
    } else if (unsure && status.value === "open") {
      setTimeout(checkWho, ASK_AGAIN_MS);
    }
  };
  addEventListener("minikafka-refused", checkWho);
  const close = openSource({
    onMessages: (messages) => {
      const hello = messages.find(({ type }) => type === "hello");
      if (hello && !hello.live) {
        close();
        playRecording("api/recording");
        return;
      }
      if (player.value) return;
      receive(messages);
      if (!hello || greeted) return;
      greeted = true;
      tellWho();
      // A page process without acts shows no buttons.
      api.get("acts").then((acts) => receive([{ type: "acts", at: 0, acts }]), () => {});
    },
    onStatus: (found) => {
      if (!player.value) status.value = found;
      if (found === "trying" || found === "refused" || (found === "stopped" && greeted)) unsure = true;
      // A stream is refused where the token or the sign-in is no longer valid.
      if (unsure && (found === "open" || found === "refused")) checkWho();
    },
  });
}

function start() {
  applyTheme();
  const place = /** @type {Element} */ (document.getElementById("app"));
  place.replaceChildren(); // the sentence for browsers that have not loaded this file yet
  render(html`<${App} />`, place);
  const recording = new URLSearchParams(location.search).get("recording");
  if (recording) playRecording(recording);
  else followCluster();
}

function App() {
  const state = useSignal(store);
  const { path, params } = useSignal(route);
  const playing = useSignal(player);
  const [help, setHelp] = useState(false);
  const view = VIEWS.find((one) => one.path === path) ?? VIEWS[0];
  const who = useSignal(access);
  const locked = who?.may_read === false && !playing;
  const changed = () => { if (playing) store.value = playing.state; };
  const [, draw] = useState(0);
  useEffect(() => {
    const neighbour = (/** @type {number} */ by) => {
      const now = VIEWS.findIndex((one) => one.path === route.value.path);
      go(VIEWS[(now + by + VIEWS.length) % VIEWS.length].path);
    };
    return listenForKeys({
      view: (key) => {
        const found = VIEWS.find((one) => one.key === key);
        if (found) go(found.path);
        return found !== undefined;
      },
      space: () => {
        if (player.value) player.value.playing ? player.value.pause() : player.value.play();
        else paused.value = !paused.value;
        draw((/** @type {number} */ n) => n + 1);
      },
      arrow: (by) => {
        if (!player.value) return neighbour(by);
        player.value.step(by);
        store.value = player.value.state;
        return undefined;
      },
      help: () => setHelp(true),
    });
  }, []);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${locked ? "Sign in" : view.title} – minikafka`;
    if (!first.current) document.getElementById("main")?.focus({ preventScroll: true });
    first.current = false;
    scrollTo(0, 0);
  }, [view, locked]);
  if (locked) {
    return html`<${Header} state=${state} help=${() => setHelp(true)} />
      <main id="main" tabindex="-1" class="alone"><h1>Sign in</h1><${SignIn} access=${who} api=${api} /></main>`;
  }
  return html`
    <${Header} state=${state} help=${() => setHelp(true)} />
    <div class="body">
      <${Navigation} current=${view} />
      <main id="main" tabindex="-1" aria-label=${view.title}>
        <${Trouble} />
        ${!playing && html`<${FoundRuns} api=${api} />`}
        ${who?.stale && !state.hello?.read_only && html`<${Stranger} access=${who} />`}
        <h1>${view.title}</h1>
        <${Viewed} key=${path} path=${path} state=${state} params=${params}
          api=${playing ? noApi : api} />
      </main>
    </div>
    ${playing && html`<${PlayerBar} player=${playing} changed=${changed} />`}
    <${HelpDialog} views=${VIEWS} open=${help} close=${() => setHelp(false)}
      recording=${playing !== null} />`;
}

/** @param {{state: import("./reducer.js").State, help: () => void}} props */
function Header({ state, help }) {
  const hello = state.hello;
  const who = useSignal(access);
  return html`<header class="top">
    <a class="brand" href="#/cluster"><img src="static/icon.svg" alt="" width="28" height="28" />
      <span>minikafka</span></a>
    ${hello?.clusters?.length > 1 && html`<${Clusters} hello=${hello} />`}
    ${hello && html`<span class="cluster-id muted" title=${hello.bootstrap}>${hello.cluster_id}</span>`}
    <span class="spread"></span>
    ${who && html`<${Who} access=${who} api=${api} />`}
    <${Status} state=${state} />
    <${ThemeSwitch} />
    <button class="icon-button" onClick=${help} aria-label="Help: keys" title="Keys (?)">
      <span aria-hidden="true">?</span></button>
  </header>`;
}

/** Chooses one of the clusters that the page shows; each has the page below its name.
 * @param {{hello: any}} props */
function Clusters({ hello }) {
  const open = (/** @type {any} */ event) => {
    location.assign(`../${encodeURIComponent(event.target.value)}/#/${route.value.path}`);
  };
  return html`<select class="clusters" aria-label="Cluster" onChange=${open}>${
    hello.clusters.map((/** @type {string} */ name) =>
      html`<option value=${name} selected=${name === hello.name}>${name}</option>`)}</select>`;
}

/** @param {{state: import("./reducer.js").State}} props */
function Status({ state }) {
  const found = useSignal(status);
  const still = useSignal(paused);
  const who = useSignal(access);
  if (who?.may_read === false && found !== "recording") return html`<span class="pill warn" role="status">not signed in</span>`;
  const live = who?.who === null && !state.hello?.read_only ? ["warn", "live, look only"] : ["good", "live"];
  if (found === "recording") return html`<span class="pill quiet">recording</span>`;
  const [kind, text] = found === "open" ? (still ? ["warn", "paused"] : live)
    : found === "trying" || found === "refused" ? ["bad", "connection lost, trying again"] : ["quiet", "connecting"];
  return html`<span class="live" role="status">
    ${state.hello?.read_only && html`<span class="pill quiet">read-only</span>`}
    <span class=${`pill ${kind}`} title=${dateTime(state.at || null)}>${text}</span></span>
    ${found === "open" && html`<button class="small" onClick=${() => { paused.value = !still; }}>${
      still ? "Go on" : "Pause"}</button>`}`;
}

function Trouble() {
  const found = useSignal(trouble);
  return found && html`<p class="notice bad" role="alert">${found}</p>`;
}

start();
