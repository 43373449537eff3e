/** The menu of a host, a link or a message: opened by click, context menu or keyboard. */

import { html, useLayoutEffect, useRef } from "../parts/html.js";

/** @typedef {{label: string, act: () => void, reason?: string, danger?: boolean, title?: string}} Item */

/** @param {{title: string, items: Item[], x: number, y: number, close: () => void}} props */
export function Menu({ title, items, x, y, close }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  useLayoutEffect(() => { // a key pressed right after the menu has opened is for the menu
    const before = /** @type {HTMLElement|SVGElement|null} */ (document.activeElement);
    const menu = /** @type {HTMLElement} */ (box.current);
    const parent = /** @type {HTMLElement} */ (menu.offsetParent ?? document.body);
    menu.style.left = `${Math.max(0, Math.min(x, parent.clientWidth - menu.offsetWidth))}px`;
    menu.style.top = `${Math.max(0, y)}px`;
    buttons(menu)[0]?.focus({ preventScroll: true });
    menu.scrollIntoView({ block: "nearest" });
    const outside = (/** @type {Event} */ event) => {
      if (!menu.contains(/** @type {Node} */ (event.target))) close();
    };
    document.addEventListener("pointerdown", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      before?.focus({ preventScroll: true });
    };
  }, []);
  const press = (/** @type {KeyboardEvent} */ event) => {
    const all = buttons(/** @type {HTMLElement} */ (box.current));
    const now = all.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    const by = /** @type {Object<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 })[event.key];
    if (by) all[(now + by + all.length) % all.length].focus();
    else if (event.key === "Home") all[0].focus();
    else if (event.key === "End") all.at(-1)?.focus();
    else if (event.key === "Escape" || event.key === "Tab") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const choose = (/** @type {Item} */ item) => {
    if (item.reason) return;
    close();
    item.act();
  };
  return html`<div class="stage-menu card" role="menu" aria-label=${title} ref=${box} onKeyDown=${press}>
    <p class="menu-title" aria-hidden="true">${title}</p>
    ${items.map((item) => html`<button key=${item.label} role="menuitem" tabindex="-1" aria-disabled=${item.reason ? "true" : null}
      class=${item.danger ? "danger" : ""} title=${item.reason ?? item.title ?? null} onClick=${() => choose(item)}>${item.label}${
        item.reason && html` <span class="muted">(${item.reason})</span>`}</button>`)}
  </div>`;
}

/** @param {HTMLElement} menu @returns {HTMLButtonElement[]} */
function buttons(menu) {
  return [...menu.querySelectorAll("button")];
}
