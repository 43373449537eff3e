/** Actions of the catalogue: which fit a host or a link, and the form of their arguments. */

import { all } from "../reducer.js";
import { html, useId, useState } from "../parts/html.js";
import { useSignal } from "../parts/shell.js";
import { Dialog } from "./dialog.js";
import { hostsOf, spoken } from "./hosts.js";

/** @typedef {import("./model.js").Action} Action */
/** @typedef {import("./model.js").Argument} Argument */
/** @typedef {import("./hosts.js").Host} Host */

const OF_MESSAGES = new Set(["hold_message", "release_message", "drop_message", "hold", "release", "drop"]);
const OF_ZOOKEEPER = /zookeeper|znode|session/;

/** @param {Action} action @param {string} kind */
const takes = (action, kind) => action.arguments.filter((argument) => argument.kind === kind).length;

/** Return the actions of a kind of place, in the catalogue's order.
 * @param {Action[]} actions @param {"broker"|"zookeeper"|"client"|"link"} place @returns {Action[]} */
export function actionsOf(actions, place) {
  return actions.filter((action) => {
    if (OF_MESSAGES.has(action.name)) return false;
    if (takes(action, "host") === 2) return place === "link";
    if (takes(action, "broker") === 1) {
      return place === "broker" || (place === "zookeeper" && OF_ZOOKEEPER.test(action.name));
    }
    const ofZooKeeper = OF_ZOOKEEPER.test(action.name) && !action.name.includes("group");
    return place === (ofZooKeeper ? "zookeeper" : "client");
  });
}

/** Return why an action is not possible on a host now, or "".
 * @param {string} name @param {Host|undefined} host */
export function reasonAgainst(name, host) {
  if (!host) return "";
  const { alive, paused, refuses, kind, disk } = host;
  if (kind === "zookeeper") {
    if (name === "zookeeper_away" && !alive) return "ZooKeeper is away";
    return name === "zookeeper_back" && alive ? "ZooKeeper is there" : "";
  }
  if (name === "start") return alive ? "it runs" : "";
  if (["kill", "stop", "power_loss", "pause", "isolate"].includes(name) && !alive) return "it is down";
  if (name === "resume" && !paused) return "it is not paused";
  if (name === "refuse" && refuses) return "connections are refused";
  if (name === "accept" && !refuses) return "connections are accepted";
  if (name === "repair_disk" && disk === "ok") return "its disk is well";
  return "";
}

/** "power_loss" -> "Power loss". @param {string} name */
export function titleOf(name) {
  const words = name.replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
}

/** @param {Argument[]} args @param {Object<string, any>} given @returns {Object<string, any>} */
export function firstValues(args, given) {
  return Object.fromEntries(args.map(({ name, kind, default: value, choices, least }) =>
    [name, given[name] ?? value ?? choices?.[0] ?? (kind === "number" ? least : kind === "broker" ? 1 : "")]));
}

/** Carry out an action at once, or open its form first if it has more arguments.
 * @param {import("./session.js").LearnSession} session @param {Action} action
 * @param {Object<string, any>} given @param {(form: {action: Action, given: any}) => void} openForm */
export function perform(session, action, given, openForm) {
  if (action.arguments.every(({ name }) => name in given)) void session.act(action.name, given);
  else openForm({ action, given });
}

/** The form of one action. @param {{session: import("./session.js").LearnSession, action: Action,
 *   given?: Object<string, any>, words: import("./words.js").Words, done: () => void}} props */
export function ActionForm({ session, action, given = {}, words, done }) {
  const [values, setValues] = useState(() => firstValues(action.arguments, given));
  const problem = useSignal(session.model).problem;
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    await session.act(action.name, values);
    if (!session.model.value.problem) done();
  };
  return html`<form onSubmit=${submit}>
    <p class="muted">${action.title}</p>
    ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
    <div class="fields">${action.arguments.map((argument) => html`<${Field} key=${argument.name} argument=${argument}
      value=${values[argument.name]} session=${session} fixed=${argument.name in given}
      change=${(/** @type {any} */ value) => setValues({ ...values, [argument.name]: value })} />`)}</div>
    <footer><button type="submit" class="primary">${words.carryOut}</button></footer>
  </form>`;
}

/** @param {{argument: Argument, value: any, session: import("./session.js").LearnSession,
 *   fixed: boolean, change: (value: any) => void}} props */
function Field({ argument, value, session, fixed, change }) {
  const { name, kind, least, most, choices = [], default: usual } = argument;
  const list = useId();
  const state = session.state.value;
  const hosts = hostsOf(state);
  const shared = { name, disabled: fixed, required: usual === null && kind !== "text" };
  /** @type {[any, string][]} */
  const options = kind === "broker"
    ? hosts.filter((host) => host.id !== null).map(({ id, name: host }) => [id, spoken(host)])
    : kind === "host" && choices.length === 0 ? hosts.map(({ name: host }) => [host, spoken(host)])
      : choices.map((choice) => [choice, choice]);
  const label = html`<span>${name.replaceAll("_", " ")}</span>`;
  if (options.length > 0 && kind !== "number") {
    return html`<label class="field">${label}<select ...${shared} value=${value} onChange=${(/** @type {any} */ event) =>
      change(kind === "broker" ? Number(event.target.value) : event.target.value)}>
      ${options.map(([option, text]) => html`<option key=${option} value=${option}>${text}</option>`)}</select></label>`;
  }
  if (kind === "number") {
    return html`<label class="field">${label}<input ...${shared} type="number" min=${least} max=${most} value=${value}
      onInput=${(/** @type {any} */ event) => change(Number(event.target.value))} /></label>`;
  }
  const topics = kind === "topic" ? all(state, "topic").map((topic) => topic.name) : [];
  return html`<label class="field">${label}<input ...${shared} value=${value} list=${topics.length ? list : null}
    onInput=${(/** @type {any} */ event) => change(event.target.value)} />
    ${topics.length > 0 && html`<datalist id=${list}>${topics.map((topic) => html`<option key=${topic} value=${topic} />`)}</datalist>`}</label>`;
}

/** All actions, for a reader without a mouse and for those that no host has.
 * @param {{session: import("./session.js").LearnSession, words: import("./words.js").Words,
 *   close: () => void}} props */
export function ActionsDialog({ session, words, close }) {
  const { actions } = useSignal(session.model).catalogue;
  const [name, setName] = useState(actions[0]?.name ?? "");
  const action = actions.find((one) => one.name === name);
  return html`<${Dialog} title=${words.actions} close=${close} words=${words}>
    <label class="field"><span>${words.action}</span><select name="action" value=${name} onChange=${(/** @type {any} */ event) =>
      setName(event.target.value)}>${actions.map((one) => html`<option key=${one.name} value=${one.name}>${
        titleOf(one.name)}</option>`)}</select></label>
    ${action && html`<${ActionForm} key=${name} session=${session} action=${action} words=${words} done=${close} />`}
  <//>`;
}
