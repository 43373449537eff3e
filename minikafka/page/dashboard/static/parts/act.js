/**
 * Buttons that act on the cluster, and the one dialog through which every act goes.
 *
 * The dialog draws the fields that `GET /api/acts` lists, and shows the command line that does the
 * same in a shell. Where a dry run exists it comes first. A dangerous act needs its name typed in.
 * @module
 */
import { html, render, useEffect, useRef, useState } from "./html.js";
import { argumentsOf, Fields, initialValues } from "./act_fields.js";
import { copyText } from "./clipboard.js";
import { Output } from "./output.js";
import { looks, notePending } from "./pending.js";
import { accessReason } from "./sign_in.js";

/**
 * @typedef {{name: string, type: string, required?: boolean, several?: boolean, choices?: string[], help?: string}} Field
 * @typedef {{name: string, title: string, fields: Field[], dry_run?: boolean, dangerous?: boolean, command?: string}} Act
 * @typedef {{command: string, problem?: string, status?: number, output?: any, errors?: string, fill?: Record<string, string>}} Reply
 */

const SUPERVISED = {
  "broker-stop": { verb: "stop", title: "Stop a broker by controlled shutdown (kill -15)", dangerous: true },
  "broker-kill": { verb: "kill", title: "Kill a broker at once (kill -9)", dangerous: true },
  "broker-start": { verb: "start", title: "Start a broker", dangerous: false },
  "broker-pause": { verb: "pause", title: "Pause a broker (kill -STOP)", dangerous: true },
  "broker-resume": { verb: "resume", title: "Resume a paused broker (kill -CONT)", dangerous: false },
  "broker-isolate": { verb: "isolate", title: "Cut a broker off from all others, clients and ZooKeeper", dangerous: true },
  "broker-rejoin": { verb: "rejoin", title: "Undo the isolation of a broker", dangerous: false },
};
const PREVIEW_AFTER_MS = 150;
// What is still to be typed: the dialog's own choice would be the button that closes it.
const FIRST_FIELD = ":is(input, select, textarea):not([readonly], [disabled], [type=checkbox])";

/**
 * Return why an act cannot be done now, as a sentence, or null if it can.
 * @param {any} state
 * @param {string} name
 * @returns {string | null}
 */
export function reasonAgainst(state, name) {
  const hello = state.hello;
  if (!hello) return "The page has no connection yet.";
  if (hello.live === false) return "This is a recording; it cannot be changed.";
  if (hello.read_only) return "The page was started with --read-only.";
  const role = (state.acts ?? []).find((/** @type {any} */ act) => act.name === name)?.role;
  const refused = accessReason(state.access, role);
  if (refused) return refused;
  const supervised = SUPERVISED[/** @type {keyof typeof SUPERVISED} */ (name)];
  if (supervised && !(hello.supervised ?? []).includes(supervised.verb)) {
    return "Only the page of `minikafka up` can stop and start brokers, since `up` owns their processes.";
  }
  return null;
}

/**
 * Return the act of a name, from the state or else from the page's process. Supervised acts exist
 * even where no list has them. Rejects with a sentence.
 * @param {ActProps} props
 * @returns {Promise<Act>}
 */
async function findAct({ act, state, api }) {
  const known = (/** @type {Act[]} */ acts) => acts.find(({ name }) => name === act);
  const supervised = SUPERVISED[/** @type {keyof typeof SUPERVISED} */ (act)];
  const found = known(state.acts ?? []) ?? (supervised ? undefined : known(await api.get("acts")));
  if (found) return found;
  if (!supervised) throw new Error(`This page has no act ${act}.`);
  return { name: act, ...supervised, fields: [{ name: "broker", type: "broker", required: true }] };
}

/**
 * A button that opens the dialog of an act. Disabled, with the reason, where the act is impossible;
 * absent from recordings.
 * @typedef {Object} ActProps
 * @property {string} act its name in `GET /api/acts`, e.g. "broker-kill"
 * @property {any} state
 * @property {any} api
 * @property {any} [label] default: the act's name
 * @property {Record<string, any>} [args] values of fields that are known already
 * @property {string[]} [fixed] names of fields that stay as `args` says
 * @property {string[]} [only] names of the fields to draw; default: all
 * @property {string} [confirm] what a dangerous act needs typed in; default: the name in `args`
 * @property {(reply: Reply, sent: Record<string, any>) => void} [done] called after a
 *   successful act, with the reply and the arguments
 * @property {string} [className]
 * @property {string} [title]
 */

/** @param {ActProps} props */
export function ActButton(props) {
  if (props.state.hello?.live === false) return null;
  const reason = reasonAgainst(props.state, props.act);
  const open = () => {
    if (reason === null) openAct(props);
  };
  return html`<button type="button" class=${`act ${props.className ?? "small"}`} data-act=${props.act}
    aria-disabled=${reason === null ? null : "true"} title=${reason ?? props.title ?? null}
    aria-description=${reason} onClick=${open}>${props.label ?? props.act}</button>`;
}

/**
 * Open the dialog of an act. It stays open when the view behind it changes.
 * @param {ActProps} props
 */
export function openAct(props) {
  const container = document.createElement("div");
  document.body.append(container);
  const close = () => {
    render(null, container);
    container.remove();
  };
  render(html`<${ActDialog} ...${props} close=${close} />`, container);
}

/** @param {ActProps & {close: () => void}} props */
function ActDialog(props) {
  const dialog = useRef(/** @type {any} */ (null));
  const [found, setFound] = useState(/** @type {Act | null} */ (null));
  const [problem, setProblem] = useState("");
  useEffect(() => {
    dialog.current.showModal();
    findAct(props).then(setFound, (error) => setProblem(error.message));
  }, []);
  return html`<dialog
    ref=${dialog}
    class="act-dialog"
    aria-labelledby="act-title"
    onClose=${props.close}
    onClick=${(/** @type {any} */ event) => event.target === dialog.current && dialog.current.close()}
  >
    <div class="act-body">
      <header>
        <h2 id="act-title">${found?.title ?? props.label ?? props.act}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick=${() => dialog.current.close()}>×</button>
      </header>
      ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
      ${found && html`<${ActForm} ...${props} act=${found} leave=${() => dialog.current.close()} />`}
    </div>
  </dialog>`;
}

/** @param {any} props */
function ActForm({ act, args = {}, fixed = [], only, confirm, state, api, done, leave }) {
  const [values, setValues] = useState(() => initialValues(act.fields, args));
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState("");
  const [result, setResult] = useState(/** @type {any} */ (null));
  const [tried, setTried] = useState(""); // the arguments of the last successful dry run
  const [finished, setFinished] = useState(""); // the arguments with which it was carried out
  const drawn = act.fields.filter((/** @type {Field} */ field) => !only || only.includes(field.name));
  const sent = argumentsOf(act.fields, values);
  const key = JSON.stringify(sent);
  const word = confirm ?? String(sent.topic ?? sent.group ?? sent.broker ?? act.name); // of the field as it is now
  const named = !act.dangerous || typed.trim() === word;
  const dryRunDue = Boolean(act.dry_run) && tried !== key;
  const over = finished === key;
  const missing = act.fields.filter((/** @type {Field} */ field) => field.required && !(field.name in sent));
  const preview = usePreview(api, act.name, sent, dryRunDue, missing.map((/** @type {Field} */ field) => field.name));
  const form = useRef(/** @type {any} */ (null));
  useEffect(() => form.current.querySelector(FIRST_FIELD)?.focus(), []);
  const waiting = useRef(false);
  // An act goes on when its dialog is closed: the page shows it then.
  useEffect(() => () => { if (waiting.current) looks.value += 1; }, []);

  /** @param {boolean} dry */
  const send = async (dry) => {
    setBusy(dry ? "dry" : "real");
    setResult(null);
    waiting.current = true;
    notePending(1);
    try {
      const reply = await api.do(act.name, sent, { dry_run: dry });
      const failed = (reply.status ?? 0) !== 0;
      setResult({ ...reply, dry, failed });
      if (!failed && dry) {
        const filled = { ...values, ...(reply.fill ?? {}) };
        setValues(filled);
        setTried(JSON.stringify(argumentsOf(act.fields, filled)));
      }
      if (!failed && !dry) {
        setTried("");
        setFinished(key);
        done?.(reply, sent);
      }
    } catch (error) {
      setResult({ failed: true, dry, errors: /** @type {Error} */ (error).message });
    }
    waiting.current = false;
    notePending(-1);
    setBusy("");
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!busy && !over && (dryRunDue || named)) void send(dryRunDue);
  };
  return html`<form onSubmit=${submit} ref=${form}>
    <${Fields} fields=${drawn} values=${values} set=${setValues} fixed=${fixed} state=${state} api=${api} />
    <${CommandLine} preview=${preview} />
    ${act.dangerous &&
    !dryRunDue &&
    html`<label class="field">
      <span>Type <strong>${word}</strong> to confirm</span>
      <input type="text" name="confirm" autocomplete="off" spellcheck=${false} value=${typed}
        onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} />
    </label>`}
    <${Result} result=${result} />
    <footer>
      <button type="button" onClick=${leave}>${result && !result.failed && !result.dry ? "Close" : "Cancel"}</button>
      ${act.dry_run &&
      html`<button type="submit" data-run="dry" class=${dryRunDue ? "primary" : ""} disabled=${Boolean(busy)}
        onClick=${(/** @type {Event} */ event) => {
          event.preventDefault();
          if (/** @type {any} */ (event.currentTarget).form.reportValidity()) void send(true);
        }}>
        ${busy === "dry" ? "Trying…" : "Dry run"}
      </button>`}
      <button type="submit" data-run="real" class=${`${act.dangerous ? "danger" : ""} ${dryRunDue ? "" : "primary"}`}
        disabled=${Boolean(busy) || over || dryRunDue || !named}
        title=${over ? "It is done with these values." : dryRunDue ? "Make a dry run with these values first." : null}>
        ${busy === "real" ? "Executing…" : "Execute"}
      </button>
    </footer>
  </form>`;
}

/**
 * Return the command line of an act, fetched again a moment after its arguments have changed.
 * @param {any} api
 * @param {string} name
 * @param {Record<string, any>} sent
 * @param {boolean} dry whether the command of the dry run is meant
 * @param {string[]} [missing] names of required fields without a value: there is no command yet
 * @returns {{command: string, problem: string}}
 */
export function usePreview(api, name, sent, dry, missing = []) {
  const [preview, setPreview] = useState({ command: "", problem: "" });
  useEffect(() => {
    let over = false;
    if (missing.length) {
      const fields = missing.map((field) => field.replaceAll("_", " ")).join(", ");
      setPreview({ command: "", problem: `The command is shown once these fields are filled in: ${fields}.` });
      return undefined;
    }
    const timer = setTimeout(() => {
      api
        .do(name, sent, { dry_run: dry, preview: true })
        .then((/** @type {Reply} */ reply) => ({ command: reply.command, problem: reply.problem ?? "" }))
        .catch((/** @type {Error} */ error) => ({ command: "", problem: error.message }))
        .then((/** @type {any} */ found) => !over && setPreview(found));
    }, PREVIEW_AFTER_MS);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [JSON.stringify(sent), dry]);
  return preview;
}

/** The same act as a command for a shell, with a button that copies it. @param {{preview: any}} props */
export function CommandLine({ preview }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    setCopied(await copyText(preview.command));
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<section class="command" aria-label="The same in a shell">
    <div class="command-head">
      <span>The same in a shell</span>
      <button type="button" class="small" disabled=${!preview.command} onClick=${copy}>${copied ? "copied" : "copy"}</button>
    </div>
    ${preview.problem
      ? html`<p class="hint">${preview.problem}</p>`
      : html`<code tabindex="0">${preview.command || "…"}</code>`}
  </section>`;
}

/** What a run has printed. @param {{result: any}} props */
function Result({ result }) {
  if (!result) return null;
  const head = result.failed ? "It failed." : result.dry ? "This would happen; nothing has changed yet." : "Done.";
  return html`<section class=${`result ${result.failed ? "failed" : ""}`} role=${result.failed ? "alert" : "status"}>
    <p><strong>${head}</strong> ${result.errors ?? ""}</p>
    <${Output} value=${result.output} />
  </section>`;
}
