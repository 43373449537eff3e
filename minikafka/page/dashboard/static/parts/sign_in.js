/**
 * What the page shows to a browser that may not read it, or not act: why, and how to come in.
 * @module
 */
import { html, useState } from "./html.js";

/**
 * What `GET /api/session` says of this browser. `way`: how they came in; `ways`: how one can;
 * `stale`: the browser has a token or a sign-in that the page's server does not know.
 * @typedef {{who: string|null, role: string|null, way: string|null, may_read: boolean, ways: string[], stale: boolean}} Access
 */

const ROLES = ["look", "produce", "operate", "administer"];
const WHERE = "Open the address that `minikafka ui` printed when it started, page=http://…/?token=…; `minikafka up` prints it "
  + "in its ready line.";

/**
 * Return why this browser may not do an act that needs `role`; null if it may.
 * @param {Access|null|undefined} access @param {string|undefined} role
 * @returns {string|null}
 */
export function accessReason(access, role) {
  if (!access) return null;
  if (access.who === null) return strangerText(access);
  const mine = ROLES.indexOf(access.role ?? "");
  return role && mine < ROLES.indexOf(role) ? `Your role is ${access.role}; this needs ${role}.` : null;
}

/** Why somebody is nobody to the page, and what to do. @param {Access} access */
export function strangerText(access) {
  if (!access.ways.includes("token") || access.ways.length > 1) {
    return access.stale ? "Your sign-in has ended." : "You have not signed in.";
  }
  return access.stale
    ? `The page's server was started again and has a new token. ${WHERE}`
    : `This browser does not have the page's token. ${WHERE}`;
}

/** Words in backquotes as code. @param {string} text */
function withCode(text) {
  return text.split("`").map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));
}

/** @param {{access: Access}} props */
export function Stranger({ access }) {
  return html`<p class="notice warn" role="alert">${withCode(strangerText(access))} Until then this tab shows the cluster and can
    change nothing.</p>`;
}

/** @param {{access: Access, api: any}} props */
export function SignIn({ access, api }) {
  const wrong = new URLSearchParams(location.search).has("wrong-token");
  return html`<section class="card sign-in" aria-label="Sign in">
    <p role="alert">${wrong ? "That is not a token of this page. " : ""}${withCode(strangerText(access))}</p>
    ${access.ways.includes("proxy") && html`<p class="muted">The page is meant to be opened through its proxy, which signs you in.</p>`}
    ${access.ways.includes("password") && html`<${PasswordForm} api=${api} />`}
    ${access.ways.includes("token") && html`<form class="fields" method="get" action="./" aria-label="Token">
      <label class="field"><span>token</span><input type="password" name="token" required autocomplete="off" /></label>
      <button type="submit" class="send">Use this token</button>
    </form>`}
  </section>`;
}

/** @param {{api: any}} props */
function PasswordForm({ api }) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const send = async (/** @type {any} */ event) => {
    event.preventDefault();
    const found = new FormData(event.currentTarget);
    setBusy(true);
    setProblem("");
    try {
      await api.post("sign-in", { user: found.get("user"), password: found.get("password") });
      location.reload();
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
      setBusy(false);
    }
  };
  return html`<form class="fields" aria-label="User and password" onSubmit=${send}>
    <label class="field"><span>user</span><input name="user" required autocomplete="username" spellcheck=${false} /></label>
    <label class="field"><span>password</span><input name="password" type="password" required autocomplete="current-password" /></label>
    <button type="submit" class="send primary" disabled=${busy}>Sign in</button>
    ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
  </form>`;
}

/** Who has signed in, and the way out. @param {{access: Access, api: any}} props */
export function Who({ access, api }) {
  if (!access.who || access.way === "token" && access.who === "token") return null;
  const leave = () => api.post("sign-out", {}).finally(() => location.reload());
  return html`<span class="who muted">${access.who} (${access.role})</span>
    ${access.way === "password" && html`<button class="small" onClick=${leave}>Sign out</button>`}`;
}
