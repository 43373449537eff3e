/**
 * The view "Access": who may do what in the cluster, over the protocol of any Kafka. ACLs, why they
 * allow or deny, users with SCRAM credentials, delegation tokens, and quotas.
 * @module
 */
import { hashOf } from "../route.js";
import { ActButton, CommandLine, usePreview } from "../parts/act.js";
import { Empty } from "../parts/empty.js";
import { dateTime } from "../parts/format.js";
import { html, useEffect, useState } from "../parts/html.js";
import { usePolled } from "../parts/polled.js";
import { QuotaActs, QuotaList } from "../parts/quota_list.js";
import { SearchForm, SecurityList } from "../parts/security_list.js";
import { Table } from "../parts/table.js";

const RESOURCES = ["topic", "group", "cluster", "transactional_id", "delegation_token", "user_principal"];
const PERMISSION = { allow: ["good", "allow"], deny: ["bad", "deny"] };

/** @param {any} props */
function Access({ state, api, go, params }) {
  const [changed, setChanged] = useState(0);
  const done = () => setChanged((/** @type {number} */ n) => n + 1);
  if (state.hello?.live === false) {
    return html`<${Empty}>A recording has no ACLs, users, tokens or quotas.<//>`;
  }
  const part = PARTS.find(({ tab }) => tab === params.tab) ?? PARTS[0];
  const open = (/** @type {any} */ more) => go("access", { ...params, ...more });
  return html`<div class="stack">
    <nav class="toolbar" aria-label="Parts of this view">${PARTS.map(({ tab, title }) => html`<a key=${tab} class="button"
      href=${hashOf("access", { tab })} aria-current=${tab === part.tab ? "page" : undefined}>${title}</a>`)}</nav>
    <${part.component} key=${part.tab} state=${state} api=${api} query=${params} open=${open} done=${done} changed=${changed} />
  </div>`;
}

/** @param {{row: any}} props */
function Resource({ row }) {
  const kind = row.resource.replaceAll("_", " ");
  if (row.resource === "cluster") return html`the cluster`;
  if (row.name === "*" && row.pattern === "literal") return html`every ${kind}`;
  return html`${kind} ${row.pattern === "prefixed" ? html`<span class="tag">prefix</span> ` : ""}<span class="id">${row.name}</span>`;
}

/** @param {{row: any}} props */
function Permission({ row }) {
  const [look, said] = PERMISSION[/** @type {"allow"|"deny"} */ (row.permission)] ?? ["quiet", row.permission];
  return html`<span class=${`pill ${look}`}>${said}</span>`;
}

const ACL_COLUMNS = [
  { key: "resource", title: "resource", render: (/** @type {any} */ row) => html`<${Resource} row=${row} />` },
  { key: "permission", title: "rule", render: (/** @type {any} */ row) => html`<${Permission} row=${row} />` },
  { key: "principal", title: "principal", render: (/** @type {any} */ row) => html`<span class="id">${row.principal}</span>` },
  { key: "host", title: "from", render: (/** @type {any} */ row) => (row.host === "*" ? "anywhere" : row.host) },
  { key: "operation", title: "operation" },
];

const aclKey = (/** @type {any} */ row) => Object.values(row).join("|");

/** The arguments of an act for this very rule. @param {any} row */
function argsOf(row) {
  const cluster = row.resource === "cluster";
  return { ...row, name: cluster ? "" : row.name, pattern: cluster ? "" : row.pattern };
}

/** @param {any} props */
function Acls({ state, api, query, open, done, changed }) {
  const fields = ["resource", "name", "pattern", "permission", "principal", "host", "operation"];
  const columns = [...ACL_COLUMNS, { key: "remove", title: "", render: (/** @type {any} */ row) => html`<${ActButton} act="acls-remove"
    label="Remove…" className="small danger" title=${`Remove the rule of ${row.principal}`} args=${argsOf(row)} fixed=${fields}
    confirm=${row.principal} state=${state} api=${api} done=${done} />` }];
  const { principal, resource, name, from } = query;
  return html`<section class="card" aria-label="ACLs"><h2>ACLs</h2>
    <${SearchForm} label="Search ACLs" query=${query} open=${open} fields=${[
      { name: "principal", label: "principal contains" },
      { name: "resource", label: "resource", choices: RESOURCES },
      { name: "name", label: "its name contains" },
    ]} />
    <div class="toolbar"><${ActButton} act="acls-add" label="Add a rule…" className="primary" state=${state} api=${api} done=${done}
      confirm="acls-add" args=${{ resource: resource || "topic", name: name ?? "", principal: principal ?? "" }} /></div>
    <${SecurityList} kind="acls" label="ACLs" query=${{ principal, resource, name, from }} columns=${columns} rowKey=${aclKey}
      api=${api} live=${true} changed=${changed} open=${open} none="There is no rule." />
  </section>`;
}

/** @param {any} props */
function Why({ state, api, query, open }) {
  const [operations, setOperations] = useState(/** @type {Record<string, string[]>} */ ({}));
  useEffect(() => {
    api.get("acls/operations").then(setOperations, () => {}); // the answer to the question says what is wrong
  }, []);
  const resource = query.resource || "topic";
  const known = operations[resource] ?? [];
  const operation = known.includes(query.operation) ? query.operation : (known[0] ?? query.operation ?? "");
  const asked = { principal: "", host: "", name: "", ...query, resource, operation };
  const complete = asked.principal && asked.host && asked.operation && (asked.name || resource === "cluster");
  const fields = [
    { name: "principal", label: "may (Type:name)" },
    { name: "host", label: "from the address" },
    { name: "operation", label: "do", choices: known },
    { name: "resource", label: "to a", choices: RESOURCES },
    ...(resource === "cluster" ? [] : [{ name: "name", label: "of the name" }]),
  ];
  return html`<section class="card" aria-label="Why may they"><h2>May they, and why?</h2>
    <p class="muted">The page decides by the code of the brokers' own authorizer: a Deny that matches outranks every Allow, prefixes
      and <code>*</code> count as much as the name itself, and longer prefixes do not outrank shorter ones.</p>
    <${SearchForm} label="Question" fields=${fields} query=${asked} open=${open} submit="Explain" required=${true} />
    ${complete && html`<${Answer} key=${JSON.stringify(asked)} asked=${asked} api=${api} state=${state} />`}
  </section>`;
}

/** @param {any} props */
function Answer({ asked, api }) {
  const { principal, host, operation, resource, name } = asked;
  const words = new URLSearchParams({ principal, host, operation, resource, name: resource === "cluster" ? "" : name });
  const { facts, problem } = usePolled({ api, path: `acls/why?${words}`, live: true, everyMs: 10_000 });
  const listed = resource === "cluster" ? { resource } : { resource, name, pattern: "match" };
  const preview = usePreview(api, "acls-list", listed, false);
  if (problem) return html`<p class="notice bad" role="alert">${problem}</p>`;
  if (!facts) return html`<p class="muted" role="status">Reading…</p>`;
  const [look, said] = facts.allowed === null ? ["warn", "not known"] : facts.allowed ? ["good", "allowed"] : ["bad", "denied"];
  const rows = facts.rules.map((/** @type {any} */ row, /** @type {number} */ i) => ({ ...row, decides: i === 0 ? "decides" : "matches, too" }));
  return html`<div role="status" aria-label="Answer" class="answer">
    <p><span class=${`pill ${look}`}>${said}</span> ${facts.why}</p>
    ${facts.notes.map((/** @type {string} */ note) => html`<p key=${note} class="muted">${note}</p>`)}
  </div>
  ${rows.length > 0 && html`<${Table} caption="Rules that match" columns=${[{ key: "decides", title: "effect", sortable: false }, ...ACL_COLUMNS]} rows=${rows}
    rowKey=${aclKey} />`}
  <${CommandLine} preview=${preview} />`;
}

/** @param {any} props */
function Users({ state, api, query, open, done, changed }) {
  const columns = [
    { key: "user", title: "user", render: (/** @type {any} */ row) => html`<span class="id">${row.user}</span>` },
    { key: "mechanisms", title: "mechanism (iterations)", render: (/** @type {any} */ row) => row.error
      ?? Object.entries(row.mechanisms).map(([one, rounds]) => `${one} (${rounds})`).join(", ") },
    { key: "acts", title: "", render: (/** @type {any} */ row) => html`<span class="acts">
      <${ActButton} act="users-create" label="Change password…" args=${{ user: row.user }} fixed=${["user"]} state=${state} api=${api} done=${done} />
      <${ActButton} act="users-delete" label="Delete…" className="small danger" args=${{ user: row.user }} fixed=${["user"]} confirm=${row.user}
        state=${state} api=${api} done=${done} /></span>` },
  ];
  return html`<section class="card" aria-label="Users"><h2>Users with SCRAM credentials</h2>
    <p class="muted">Users that log in otherwise (PLAIN, TLS, Kerberos, OAuth) are known to the brokers' settings or elsewhere only.</p>
    <${SearchForm} label="Search users" fields=${[{ name: "search", label: "name contains" }]} query=${query} open=${open} />
    <div class="toolbar"><${ActButton} act="users-create" label="Create a user…" className="primary" state=${state} api=${api} done=${done} /></div>
    <${SecurityList} kind="users" label="users" query=${{ search: query.search, from: query.from }} columns=${columns}
      rowKey=${(/** @type {any} */ row) => row.user} api=${api} live=${true} changed=${changed} open=${open} none="No user has a SCRAM credential." />
  </section>`;
}

/** @param {any} props */
function Tokens({ state, api, query, open, done, changed }) {
  const act = (/** @type {any} */ row, /** @type {string} */ name, /** @type {string} */ label, /** @type {any} */ more) =>
    html`<${ActButton} act=${name} label=${label} fixed=${["token_id"]} state=${state} api=${api} done=${done} confirm=${row.token_id}
      ...${more} args=${{ token_id: row.token_id, ...more.args }} />`;
  const columns = [
    { key: "token_id", title: "token", render: (/** @type {any} */ row) => html`<span class="id">${row.token_id}</span>` },
    { key: "owner", title: "owner" },
    { key: "renewers", title: "renewers" },
    { key: "expiry_ms", title: "expires", render: (/** @type {any} */ row) => dateTime(row.expiry_ms) },
    { key: "max_ms", title: "at the latest", render: (/** @type {any} */ row) => dateTime(row.max_ms) },
    { key: "acts", title: "", render: (/** @type {any} */ row) => html`<span class="acts">
      ${act(row, "tokens-renew", "Renew…", { args: { renew_time_period: -1 } })}
      ${act(row, "tokens-expire", "Expire…", { args: { expiry_time_period: -1 }, className: "small danger" })}</span>` },
  ];
  return html`<section class="card" aria-label="Delegation tokens"><h2>Delegation tokens</h2>
    <p class="muted">Tokens that the page's user may see. Their secrets are not shown; a new one is, once, where it is created.</p>
    <${SearchForm} label="Search tokens" fields=${[{ name: "search", label: "owner contains" }]} query=${query} open=${open} />
    <div class="toolbar"><${ActButton} act="tokens-create" label="Create a token…" className="primary" args=${{ max_life_time_period: -1 }}
      state=${state} api=${api} done=${done} /></div>
    <${SecurityList} kind="tokens" label="tokens" query=${{ search: query.search, from: query.from }} columns=${columns}
      rowKey=${(/** @type {any} */ row) => row.token_id} api=${api} live=${true} changed=${changed} open=${open} none="There is no token." />
  </section>`;
}

/** @param {any} props */
function Quotas({ done, ...props }) {
  return html`<div class="stack"><${QuotaActs} ...${props} done=${done} /><${QuotaList} ...${props} /></div>`;
}

const PARTS = [
  { tab: "acls", title: "ACLs", component: Acls },
  { tab: "why", title: "May they?", component: Why },
  { tab: "users", title: "Users", component: Users },
  { tab: "tokens", title: "Tokens", component: Tokens },
  { tab: "quotas", title: "Quotas", component: Quotas },
];

export const view = { path: "access", title: "Access", key: "a", component: Access };
