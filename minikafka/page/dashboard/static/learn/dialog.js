/** A modal dialog with a title and a button that closes it. */

import { html, useEffect, useId, useRef } from "../parts/html.js";

/** @param {{title: string, close: () => void, words: import("./words.js").Words, children: any,
 *   look?: string}} props */
export function Dialog({ title, close, words, children, look = "" }) {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  const id = useId();
  useEffect(() => {
    if (!dialog.current?.open) dialog.current?.showModal();
  }, []);
  return html`<dialog ref=${dialog} class=${`learn-dialog ${look}`} onClose=${close} aria-labelledby=${id}
    onClick=${(/** @type {any} */ event) => event.target === dialog.current && dialog.current?.close()}>
    <div class="act-body">
      <header><h2 id=${id}>${title}</h2>
        <button type="button" class="icon-button" aria-label=${words.close}
          onClick=${() => dialog.current?.close()}>×</button></header>
      ${children}
    </div>
  </dialog>`;
}
