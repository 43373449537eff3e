/** The view "Stage": the hosts as a picture, the messages between them, and the tools. */

import { Empty } from "../parts/empty.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";
import { useSignal } from "../parts/shell.js";
import { useWidth } from "../parts/svg.js";
import { Twin } from "../parts/twin.js";
import { go } from "../route.js";
import { ActionForm, actionsOf, perform, reasonAgainst, titleOf } from "./actions.js";
import { ApiLegend } from "./api_marks.js";
import { Dialog } from "./dialog.js";
import { describe, drawFlights } from "./flights.js";
import { conditionOf, hostsOf, linksOf, placesOf, spoken } from "./hosts.js";
import { Menu } from "./menu.js";
import { messageItems } from "./message_items.js";
import { HostMark, LinkMark } from "./stage_marks.js";
import { wordsOf } from "./words.js";

const HARSH = new Set(["kill", "power_loss", "broken_disk", "cut", "expire_session"]);

/** @typedef {import("./hosts.js").Host} Host */
/** @typedef {import("./hosts.js").Link} Link */
/** @typedef {{title: string, items: import("./menu.js").Item[], x: number, y: number}} Opened */

/** @param {{state: import("../reducer.js").State, session: import("./session.js").LearnSession}} props */
function Stage({ state, session }) {
  const hosts = hostsOf(state);
  const [menu, setMenu] = useState(/** @type {Opened|null} */ (null));
  const [form, setForm] = useState(/** @type {any} */ (null));
  const words = wordsOf(useSignal(session.language));
  const model = useSignal(session.model);
  if (hosts.length === 0) return html`<${Empty}>No host has been reported yet.<//>`;
  const links = linksOf(hosts);
  const inFlight = [...model.wire.values()].filter((one) => one.arrived_us === null && !one.lost);
  const rows = [
    ...hosts.map((host) => ({ what: spoken(host.name), is: conditionOf(host).join(", ") || "well" })),
    ...links.filter(({ state: is }) => is).map(({ one, other, state: is }) => (
      { what: `link ${spoken(one)} – ${spoken(other)}`, is })),
    ...inFlight.slice(-200).map((wire) => ({ what: `message ${wire.number}`, is: describe(wire) })),
  ];
  const tools = toolsOf(session, setForm);
  return html`<div class="stack stage-view">
    <${Twin} title="The cluster" columns=${COLUMNS} rows=${rows} rowKey=${(/** @type {any} */ row) => row.what}
      about="Press a host, a link or a message for what you can do to it.">
      <${Picture} hosts=${hosts} links=${links} session=${session} tools=${tools} menu=${menu} setMenu=${setMenu} />
      <${ApiLegend} />
    <//>
    <${Touched} hosts=${hosts} links=${links} tools=${tools} session=${session} />
    ${form && html`<${Dialog} title=${titleOf(form.action.name)} close=${() => setForm(null)} words=${words}>
      <${ActionForm} session=${session} action=${form.action} given=${form.given} words=${words}
        done=${() => setForm(null)} /><//>`}
  </div>`;
}

const COLUMNS = [{ key: "what", title: "host, link or message" }, { key: "is", title: "how it is" }];

/** Return the menu's items of hosts, links and messages.
 * @param {import("./session.js").LearnSession} session @param {(form: any) => void} openForm */
function toolsOf(session, openForm) {
  const { actions } = session.model.value.catalogue;
  /** @param {import("./model.js").Action} action @param {any} given @param {Host} [host] */
  const item = (action, given, host) => ({
    label: titleOf(action.name), title: action.title, danger: HARSH.has(action.name),
    reason: reasonAgainst(action.name, host) || undefined,
    act: () => perform(session, action, given, openForm),
  });
  return {
    /** @param {Host} host */
    host(host) {
      const known = actionsOf(actions, host.kind);
      return known.map((action) => {
        const target = action.arguments.find(({ kind }) => kind === "broker");
        return item(action, target && host.id !== null ? { [target.name]: host.id } : {}, host);
      });
    },
    /** @param {Link} link */
    link({ one, other, state }) {
      return actionsOf(actions, "link").map((action) => {
        const [first, second] = action.arguments.filter(({ kind }) => kind === "host");
        const made = item(action, { [first.name]: one, [second.name]: other });
        return action.name === "heal" && !state ? { ...made, reason: "it is whole" } : made;
      });
    },
    /** @param {import("./model.js").Wire} wire */
    message: (wire) => messageItems(session, wire, () => go("wire", { message: wire.number })),
  };
}

/** @param {{hosts: Host[], links: Link[], session: import("./session.js").LearnSession,
 *   tools: ReturnType<typeof toolsOf>, menu: Opened|null, setMenu: (menu: Opened|null) => void}} props */
function Picture({ hosts, links, session, tools, menu, setMenu }) {
  const [box, width] = useWidth(700);
  const height = Math.round(width < 480 ? width * 1.25 : Math.max(340, Math.min(540, width * 0.52)));
  const places = placesOf(hosts, width, height);
  const current = useRef(places);
  current.current = places;
  const layer = useRef(/** @type {SVGGElement|null} */ (null));
  const show = (/** @type {string} */ title, /** @type {import("./menu.js").Item[]} */ items,
    /** @type {{x: number, y: number}} */ at) => setMenu({ title, items, x: at.x + 18, y: at.y + 14 });
  const middle = (/** @type {Link} */ { one, other }) => {
    const [a, b] = [at(places, one), at(places, other)];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  };
  useEffect(() => drawFlights(/** @type {SVGGElement} */ (layer.current), session, () => current.current, (wire) => {
    session.pause();
    const [from, to] = [at(current.current, wire.source), at(current.current, wire.target)];
    show(describe(wire), tools.message(wire), { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 });
  }), []);
  return html`<div class="stage-box" ref=${box}>
    <svg role="group" aria-label=${`The cluster: ${hosts.map((host) => spoken(host.name)).join(", ")}`}
      class="picture stage-picture" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
      ${links.map((link) => html`<${LinkMark} key=${`${link.one} ${link.other}`} link=${link} from=${at(places, link.one)}
        to=${at(places, link.other)} open=${() => show(`${spoken(link.one)} – ${spoken(link.other)}`, tools.link(link), middle(link))} />`)}
      <g ref=${layer} class="flights"></g>
      ${hosts.map((host) => html`<${HostMark} key=${host.name} host=${host} at=${at(places, host.name)} narrow=${width < 480}
        open=${() => show(spoken(host.name), tools.host(host), at(places, host.name))} />`)}
    </svg>
    ${menu && html`<${Menu} key=${menu.title} ...${menu} close=${() => setMenu(null)} />`}
  </div>`;
}

/** @param {Map<string, {x: number, y: number}>} places @param {string} name */
function at(places, name) {
  return places.get(name) ?? { x: 0, y: 0 };
}

/** What is not as it should be, with the buttons that mend it. @param {{hosts: Host[], links: Link[],
 *   tools: ReturnType<typeof toolsOf>, session: import("./session.js").LearnSession}} props */
function Touched({ hosts, links, tools }) {
  const mends = new Set(["Start", "Resume", "Repair disk", "Zookeeper back", "Heal"]);
  const odd = [
    ...hosts.filter((host) => conditionOf(host).some((word) => word !== "the controller" && word !== "starting"))
      .map((host) => ({ name: spoken(host.name), is: conditionOf(host).join(", "), items: tools.host(host) })),
    ...links.filter(({ state }) => state).map((link) => (
      { name: `${spoken(link.one)} – ${spoken(link.other)}`, is: `link ${link.state}`, items: tools.link(link) })),
  ];
  if (odd.length === 0) return null;
  return html`<section class="card" aria-label="What is not as usual"><ul class="touched">${odd.map(({ name, is, items }) =>
    html`<li key=${name}><b>${name}</b> <span class="pill warn">${is}</span> ${items.filter((item) =>
      mends.has(item.label) && !item.reason).map((item) => html`<button key=${item.label} class="small"
        aria-label=${`${item.label}: ${name}`} onClick=${item.act}>${item.label}</button> `)}</li>`)}</ul></section>`;
}

export const view = { path: "stage", title: "Stage", key: "s", component: Stage };
