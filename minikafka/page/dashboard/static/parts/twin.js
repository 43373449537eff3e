/** A picture with its table twin: the same data twice, and a button that switches between them. */

import { html, useId, useState } from "./html.js";
import { Table } from "./table.js";

const REMEMBERED = "minikafka.tables"; // one choice for all pictures of this browser

/**
 * @param {Object} props
 * @param {string} props.title the heading of the figure
 * @param {string} [props.about] a sentence that says how to read the picture
 * @param {import("./table.js").Column[]} props.columns of the twin
 * @param {any[]} props.rows of the twin
 * @param {(row: any) => string|number} [props.rowKey]
 * @param {any} [props.tools] further controls beside the switch
 * @param {any} props.children the picture
 */
export function Twin({ title, about, columns, rows, rowKey, tools, children }) {
  const [asTable, setAsTable] = useState(() => localStorage.getItem(REMEMBERED) === "yes");
  const id = useId();
  const turn = () => {
    localStorage.setItem(REMEMBERED, asTable ? "no" : "yes");
    setAsTable(!asTable);
  };
  return html`<figure class="twin" aria-labelledby=${id}>
    <figcaption>
      <span class="twin-title" id=${id} role="heading" aria-level="2">${title}</span>
      <span class="twin-tools">${tools}<button class="small" aria-pressed=${asTable}
        onClick=${turn}>as table</button></span>
      ${about && html`<p class="about">${about}</p>`}
    </figcaption>
    ${asTable
      ? html`<${Table} caption=${title} columns=${columns} rows=${rows} rowKey=${rowKey} />`
      : html`<div class="picture-box">${children}</div>`}
  </figure>`;
}
