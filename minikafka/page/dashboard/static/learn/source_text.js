/** The code that a sentence is about, as it runs: the session reads it from its own package. */

import { html, useState } from "../parts/html.js";
import { Dialog } from "./dialog.js";

/** @param {{code: {path: string, name: string}, session: import("./session.js").LearnSession,
 *   words: import("./words.js").Words}} props */
export function SourceLink({ code, session, words }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const shown = code.name || code.path.split("/").pop();
  const open = async () => {
    const messages = await session.request({ do: "source", ...code });
    const text = messages.find(({ type }) => type === "source");
    if (text) setFound(text);
  };
  return html`<button class="code-link" title=${`${words.code}: ${code.path}`} onClick=${open}><code>${shown}</code></button>
    ${found && html`<${Dialog} title=${`${code.path}, line ${found.line}`} close=${() => setFound(null)} words=${words}>
      <pre class="source" tabindex="0" role="region" aria-label=${shown}><code>${found.text}</code></pre><//>`}`;
}
