/**
 * One subject of a schema registry: its versions, one of them as text or against another, its
 * compatibility, and who uses it. The address names the versions shown.
 * @module
 */
import { hashOf } from "../route.js";
import { ActButton } from "./act.js";
import { Empty } from "./empty.js";
import { count } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { diffLines } from "./line_diff.js";
import { usePolled } from "./polled.js";
import { prettyJson } from "./record_text.js";
import { Table } from "./table.js";

const POLL_MS = 10_000;
const SIGNS = { same: " ", gone: "-", new: "+" };

/** Which topics use a subject, by its name. @param {{use: any}} props */
export function Use({ use }) {
  if (!use) return html`<span class="muted" title="The name follows none of the strategies of serializers.">unknown</span>`;
  if (use.topic === null) return html`<span title=${use.strategy}>any topic, by the record's name</span>`;
  const of = use.part ? `${use.part} of ` : "";
  if (!use.exists) return html`<span class="muted" title=${use.strategy}>${of}${use.topic}, a topic that does not exist</span>`;
  return html`<span title=${use.strategy}>${of}<a href=${hashOf("topics", { name: use.topic })}>${use.topic}</a></span>`;
}

/** @param {any} props */
export function SubjectDetail({ name, params, state, api, go }) {
  const [changes, setChanges] = useState(0);
  const path = `subjects/${encodeURIComponent(name)}`;
  const polled = usePolled({ api, path, live: Boolean(state.hello), everyMs: POLL_MS, changed: changes });
  const facts = polled.facts;
  if (!facts) {
    return html`<${Back} />${polled.problem
      ? html`<p class="notice bad" role="alert">${polled.problem}</p>`
      : html`<${Empty}>Reading the subject ${name}…<//>`}`;
  }
  const versions = /** @type {any[]} */ (facts.versions);
  const shown = versions.find(({ version }) => String(version) === params.version) ?? versions[0];
  const done = () => {
    setChanges((/** @type {number} */ n) => n + 1);
    go("registry", { name });
  };
  const shared = { state, api, fixed: ["subject"] };
  return html`<div class="detail">
    <${Back} />
    <header class="detail-head">
      <h2>${name}</h2>
      <span class="pill quiet">${facts.level}</span>
      <span>${"used by "}<${Use} use=${facts.use} /></span>
    </header>
    ${polled.problem && html`<p class="notice bad" role="alert">${polled.problem}</p>`}
    <${Schema} name=${name} shown=${shown} against=${params.against} versions=${versions} go=${go} api=${api} tools=${
      (/** @type {any} */ schema) => html`
        <${ActButton} act="schemas-register" label="Check or register a version…" done=${done} ...${shared}
          args=${{ subject: name, type: shown.type, schema, reference: "" }} />
        <${ActButton} act="schemas-level" label="Compatibility…" args=${{ subject: name, level: facts.level }} done=${done} ...${shared} />
        <${ActButton} act="schemas-delete" label="Delete version…" className="small danger" confirm=${name}
          args=${{ subject: name, version: shown.version }} done=${done} ...${shared} fixed=${["subject", "version"]} />
        <${ActButton} act="schemas-delete" label="Delete subject…" className="small danger" confirm=${name}
          args=${{ subject: name }} only=${["subject"]} ...${shared} done=${() => go("registry")} />`} />
    <${Versions} name=${name} versions=${versions} shown=${shown} older=${facts.older} />
  </div>`;
}

function Back() {
  return html`<p class="back"><a href="#/registry">‹ All subjects</a></p>`;
}

/** @param {any} props */
function Versions({ name, versions, shown, older }) {
  const right = /** @type {const} */ ("right");
  const columns = [
    { key: "version", title: "version", align: right, render: (/** @type {any} */ row) =>
      html`<a href=${hashOf("registry", { name, version: row.version })} aria-current=${row === shown ? "true" : null}>${row.version}</a>` },
    { key: "id", title: "schema id", align: right, render: (/** @type {any} */ row) => row.id },
    { key: "type", title: "type" },
    { key: "diff", title: "", sortable: false, render: (/** @type {any} */ row) => (row === shown ? "shown"
      : html`<a href=${hashOf("registry", { name, version: shown.version, against: row.version })}>compare with version ${row.version}</a>`) },
  ];
  return html`<section class="card" aria-label="Versions">
    <h3>${count(versions.length + older, "version")}</h3>
    <${Table} caption=${`Versions of ${name}`} columns=${columns} rows=${versions} rowKey=${(/** @type {any} */ row) => row.version} />
    ${older > 0 && html`<p class="muted">${count(older, "older version")}: <code>minikafka schemas describe</code> shows them.</p>`}
  </section>`;
}

/** @param {any} props */
function Schema({ name, shown, against, versions, go, api, tools }) {
  const schema = useSchema(api, name, shown.version);
  const other = useSchema(api, name, against ?? "");
  const text = readable(schema.facts);
  const choose = (/** @type {any} */ event) => go("registry", { name, version: shown.version, against: event.target.value });
  return html`<div class="toolbar" role="group" aria-label="Acts on the subject">${tools(text)}</div>
  <section class="card" aria-label="Schema">
    <h3>Version ${shown.version}, schema id ${shown.id}, ${shown.type}</h3>
    <div class="toolbar">
      <label>compare with <select value=${against ?? ""} onChange=${choose}>
        <option value="">none</option>
        ${versions.filter((/** @type {any} */ row) => row !== shown).map((/** @type {any} */ row) =>
          html`<option value=${String(row.version)}>version ${row.version}</option>`)}
      </select></label>
    </div>
    ${[schema, other].map(({ problem }) => problem && html`<p class="notice bad" role="alert">${problem}</p>`)}
    ${against && other.facts && schema.facts
      ? html`<${Difference} before=${readable(other.facts)} after=${text} label=${`From version ${against} to version ${shown.version}`} />`
      : html`<pre class="output schema" tabindex="0" aria-label="Schema">${text || "…"}</pre>`}
    ${schema.facts?.references.length > 0 && html`<p>Refers to ${schema.facts.references.map((/** @type {any} */ one) =>
      html`<a href=${hashOf("registry", { name: one.subject, version: one.version })}>${one.subject} version ${one.version}</a> `)}</p>`}
    ${schema.facts?.referenced_by.length > 0 && html`<p>Schemas with the ids ${schema.facts.referenced_by.join(", ")} refer to it.</p>`}
  </section>`;
}

/** @param {{before: string, after: string, label: string}} props */
function Difference({ before, after, label }) {
  const box = useRef(/** @type {HTMLPreElement|null} */ (null));
  useEffect(() => { // a long schema begins where it differs
    const first = /** @type {HTMLElement|null|undefined} */ (box.current?.querySelector("span:not(.diff-same)"));
    if (box.current && first) box.current.scrollTop = first.offsetTop - box.current.offsetTop - 60;
  }, [before, after]);
  const lines = diffLines(before, after);
  const changed = lines.filter(({ kind }) => kind !== "same").length;
  return html`<p role="status">${label}: ${changed === 0 ? "nothing differs" : count(changed, "line")}${changed === 0 ? "" : changed === 1 ? " differs" : " differ"}.</p>
    <pre ref=${box} class="output schema diff" tabindex="0" aria-label=${label}>${lines.map(({ kind, text }, /** @type {number} */ i) =>
      html`<span key=${i} class=${`diff-${kind}`}>${SIGNS[kind]} ${text}${"\n"}</span>`)}</pre>`;
}

/** The text of a schema as people read it. @param {any} facts */
function readable(facts) {
  return facts ? (prettyJson(facts.schema) ?? facts.schema) : "";
}

/**
 * Read the schema of a version; nothing without one.
 * @param {any} api @param {string} subject @param {number|string} version
 * @returns {{facts: any, problem: string}}
 */
function useSchema(api, subject, version) {
  const [found, setFound] = useState({ version: "", facts: /** @type {any} */ (null), problem: "" });
  const wanted = String(version);
  useEffect(() => {
    if (!wanted) return undefined;
    const stop = new AbortController();
    api.get("schema", { subject, version: wanted }, stop.signal).then(
      (/** @type {any} */ facts) => setFound({ version: wanted, facts, problem: "" }),
      (/** @type {Error} */ error) => error.name !== "AbortError" && setFound({ version: wanted, facts: null, problem: error.message }),
    );
    return () => stop.abort();
  }, [subject, wanted]);
  return found.version === wanted ? found : { facts: null, problem: "" };
}
