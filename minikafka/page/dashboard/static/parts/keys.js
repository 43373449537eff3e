/** Keys of the page: views by number or letter, space, arrows, search, and the dialog that lists
 * them. */

import { html, useEffect, useRef } from "./html.js";

/** @typedef {{views: {path: string, title: string, key: string}[]}} HasViews */

/**
 * Call `actions` for keys that no field, button or link needs itself.
 * @param {{view: (key: string) => boolean, space: () => void, arrow: (by: number) => void,
 *   help: () => void}} actions
 * @returns {() => void} stops it
 */
export function listenForKeys(actions) {
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {Element} */ (event.target);
    if (target.closest("input, textarea, select, [contenteditable], dialog[open]")) return;
    if (event.key === " ") {
      if (target.closest("button, a, summary, [role=button]")) return;
      actions.space();
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      if (target.closest("[role=region], [role=tablist]")) return; // it scrolls or moves itself
      actions.arrow(event.key === "ArrowRight" ? 1 : -1);
    } else if (event.key === "?") {
      actions.help();
    } else if (event.key === "/") {
      if (!focusSearch()) return;
    } else if (!actions.view(event.key)) {
      return;
    }
    event.preventDefault();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

/** Go to the search field of the view that is open. Return false if it has none. */
function focusSearch() {
  const fields = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("main input[type=search]"));
  const field = [...fields].find((one) => one.checkVisibility());
  field?.focus();
  field?.select();
  return field !== undefined;
}

/** @param {HasViews & {open: boolean, close: () => void, recording: boolean}} props */
export function HelpDialog({ views, open, close, recording }) {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
    if (!open && dialog.current?.open) dialog.current?.close();
  }, [open]);
  const row = (/** @type {any} */ keys, /** @type {any} */ what) =>
    html`<tr><td>${keys.map((/** @type {string} */ key) => html`<kbd>${key}</kbd> `)}</td>
      <td>${what}</td></tr>`;
  return html`<dialog ref=${dialog} onClose=${close} aria-labelledby="help-title" class="help">
    <h2 id="help-title">Keys</h2>
    <div class="help-columns">
      <table><caption>Views</caption><tbody>${
        views.map(({ key, title }) => row([key], title))}</tbody></table>
      <table><caption>Anywhere</caption><tbody>
        ${row(["space"], recording ? "plays or pauses the recording" : "pauses or goes on")}
        ${recording ? row(["←", "→"], "a message back or forward")
          : row(["←", "→"], "the view before or after")}
        ${row(["/"], "goes to the search of the view")}
        ${row(["?"], "opens this help")}
        ${row(["Esc"], "closes a dialog")}
      </tbody></table>
    </div>
    <p class="muted">Every picture has a button <em>as table</em>: the same data as text.</p>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
}
