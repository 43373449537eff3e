/** Light, dark, or as the system has it; remembered in this browser. */

import { html, useState } from "./html.js";

const KEY = "minikafka.theme";
/** @type {Object<string, Theme>} */
const NEXT = { auto: "light", light: "dark", dark: "auto" };
/** @type {Object<Theme, string>} */
const SIGN = { auto: "◐", light: "☀", dark: "☾" };

/** @typedef {"auto"|"light"|"dark"} Theme @returns {Theme} */
function remembered() {
  const found = localStorage.getItem(KEY);
  return found === "light" || found === "dark" ? found : "auto";
}

/** @param {Theme} theme */
function show(theme) {
  document.documentElement.dataset.theme = theme;
}

/** Apply the remembered theme, before anything is drawn. */
export function applyTheme() {
  show(remembered());
}

export function ThemeSwitch() {
  const [theme, setTheme] = useState(/** @type {Theme} */ (remembered()));
  const turn = () => {
    const next = NEXT[theme];
    localStorage.setItem(KEY, next);
    show(next);
    setTheme(next);
  };
  const label = `Theme: ${theme === "auto" ? "as the system has it" : theme}`;
  return html`<button class="icon-button" onClick=${turn} aria-label=${label} title=${label}>
    <span aria-hidden="true">${SIGN[theme]}</span></button>`;
}

/** True if the system asks for less movement. */
export function still() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
