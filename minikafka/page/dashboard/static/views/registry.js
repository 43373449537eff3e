/**
 * The view "Registry": subjects of a schema registry, and one subject with its versions.
 * @module
 */
import { hashOf } from "../route.js";
import { ActButton } from "../parts/act.js";
import { Empty } from "../parts/empty.js";
import { html, useState } from "../parts/html.js";
import { NameList } from "../parts/name_list.js";
import { usePolled } from "../parts/polled.js";
import { SubjectDetail, Use } from "../parts/subject_detail.js";

const POLL_MS = 10_000;

/** @param {any} props */
function Registry({ state, api, go, params }) {
  const live = state.hello?.live !== false;
  const about = usePolled({ api, path: "registry", live: live && Boolean(state.hello), everyMs: POLL_MS });
  if (!live) return html`<${Empty} title="A recording has no schema registry.">The page reads it from the registry itself.<//>`;
  if (about.problem && !about.facts) return html`<p class="notice bad" role="alert">${about.problem}</p>`;
  if (!about.facts) return html`<${Empty}>Reading the registry…<//>`;
  if (about.facts.address === null) {
    return html`<${Empty} title="The page was started without a schema registry.">
      <code>minikafka ui --registry URL ...</code> names one: that of <code>minikafka registry</code>, or
      another with Confluent's REST API.<//>`;
  }
  if (params.name) return html`<${SubjectDetail} key=${params.name} name=${params.name} params=${params} state=${state} api=${api} go=${go} />`;
  return html`<${Subjects} state=${state} api=${api} go=${go} params=${params} about=${about.facts} />`;
}

/** @param {any} props */
function Subjects({ state, api, go, params, about }) {
  const [changes, setChanges] = useState(0);
  const right = /** @type {const} */ ("right");
  const columns = [
    { key: "type", title: "type", sortable: false },
    { key: "version", title: "newest version", align: right, sortable: false },
    { key: "id", title: "schema id", align: right, sortable: false, render: (/** @type {any} */ row) => row.id ?? "–" },
    { key: "use", title: "used by", sortable: false, render: (/** @type {any} */ row) => html`<${Use} use=${row.use} />` },
  ];
  const shared = { state, api };
  const registered = (/** @type {any} */ _, /** @type {any} */ sent) => {
    setChanges((/** @type {number} */ n) => n + 1);
    go("registry", { name: sent.subject });
  };
  return html`<div>
    <p class="muted">Schemas of <code>${about.address}</code>; compatibility by default
      <span class="pill quiet">${about.level}</span></p>
    <${NameList} kind="subjects" path="registry" params=${params} label="subjects" nameOf=${(/** @type {any} */ row) => row.subject} columns=${columns}
      href=${(/** @type {string} */ name) => hashOf("registry", { name })} api=${api} live=${true} local=${() => []} changed=${changes}
      tools=${html`<${ActButton} act="schemas-level" label="Compatibility…" args=${{ level: about.level }} only=${["level"]}
          className="" ...${shared} />
        <${ActButton} act="schemas-register" label="Register schema…" className="primary" done=${registered} ...${shared} />`} />
  </div>`;
}

export const view = { path: "registry", title: "Registry", key: "s", component: Registry };
