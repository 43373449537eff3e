/**
 * The fields of an act's dialog, drawn from the list of `GET /api/acts`.
 * @module
 */
import { html, useEffect, useState } from "./html.js";
import { all } from "../reducer.js";

const LONG = 60; // characters; a longer text gets several lines

/**
 * Return the first values of fields: those given, else "" (false for a flag).
 * @param {import("./act.js").Field[]} fields
 * @param {Record<string, any>} given
 * @returns {Record<string, any>}
 */
export function initialValues(fields, given) {
  /** @type {Record<string, any>} */
  const values = {};
  for (const field of fields) {
    const empty = field.type === "flag" ? false : "";
    values[field.name] = given[field.name] ?? firstChoice(field) ?? empty;
  }
  return values;
}

/**
 * @param {import("./act.js").Field} field
 * @returns {string | null}
 */
function firstChoice(field) {
  return field.type === "choice" && field.required ? (field.choices?.[0] ?? null) : null;
}

/**
 * Return the arguments to send: without empty fields, numbers as numbers.
 * @param {import("./act.js").Field[]} fields
 * @param {Record<string, any>} values
 * @returns {Record<string, any>}
 */
export function argumentsOf(fields, values) {
  /** @type {Record<string, any>} */
  const sent = {};
  for (const field of fields) {
    const value = values[field.name];
    if (value === "" || value === null || value === undefined || value === false) continue;
    const isNumber = !field.several && (field.type === "number" || field.type === "broker");
    sent[field.name] = isNumber && !Number.isNaN(Number(value)) ? Number(value) : value;
  }
  return sent;
}

/** @param {any} props */
export function Fields({ fields, values, set, fixed, state, api }) {
  return html`<div class="fields">
    ${fields.map(
      (/** @type {any} */ field) => html`<${OneField}
        key=${field.name}
        field=${field}
        value=${values[field.name]}
        fixed=${fixed.includes(field.name)}
        state=${state}
        api=${api}
        change=${(/** @type {any} */ value) => set({ ...values, [field.name]: value })}
      />`,
    )}
  </div>`;
}

/** @param {any} props */
function OneField({ field, value, fixed, state, api, change }) {
  const help = field.help ? html`<small id=${`help-${field.name}`}>${field.help}</small>` : null;
  const label = html`<span>${field.name.replaceAll("_", " ")}${field.required ? html`<b title="required"> *</b>` : null}</span>`;
  const shared = {
    name: field.name,
    required: field.required && field.type !== "flag",
    "aria-describedby": field.help ? `help-${field.name}` : null,
  };
  if (field.type === "flag") {
    return html`<label class="field flag">
      <input ...${shared} type="checkbox" checked=${Boolean(value)} disabled=${fixed}
        onChange=${(/** @type {any} */ event) => change(event.target.checked)} />
      ${label} ${help}
    </label>`;
  }
  if (fixed) {
    return html`<label class="field">${label}<input ...${shared} type="text" readonly value=${value} />${help}</label>`;
  }
  return html`<label class=${field.type === "lines" ? "field lines" : "field"}>
    ${label}
    <${Input} field=${field} shared=${shared} value=${value} state=${state} api=${api} change=${change} />
    ${help}
  </label>`;
}

/** @param {any} props */
function Input({ field, shared, value, state, api, change }) {
  const onInput = (/** @type {any} */ event) => change(event.target.value);
  if (field.type === "choice") {
    return html`<select ...${shared} value=${value} onChange=${onInput}>
      ${!field.required && html`<option value=""></option>`}
      ${(field.choices ?? []).map((/** @type {string} */ choice) => html`<option value=${choice}>${choice}</option>`)}
    </select>`;
  }
  if (field.type === "broker" && !field.several) {
    const nodes = all(state, "node");
    const ids = nodes.map((node) => node.facts.id).sort((a, b) => a - b);
    return html`<select ...${shared} value=${String(value)} onChange=${onInput}>
      <option value=""></option>
      ${ids.map((id) => html`<option value=${String(id)}>broker ${id}</option>`)}
    </select>`;
  }
  if (field.type === "topic" || field.type === "group") {
    return html`<${NameInput} kind=${field.type} shared=${shared} value=${value} change=${change} api=${api} />`;
  }
  if (field.type === "number") {
    return html`<input ...${shared} type="number" inputmode="numeric" value=${value} onInput=${onInput} />`;
  }
  if (field.type === "password") {
    return html`<input ...${shared} type="password" autocomplete="new-password" value=${value} onInput=${onInput} />`;
  }
  if (field.type === "lines" || String(value).length > LONG) {
    return html`<textarea ...${shared} rows=${field.type === "lines" ? 12 : 5} spellcheck=${false} value=${value} onInput=${onInput}></textarea>`;
  }
  return html`<input ...${shared} type="text" autocomplete="off" spellcheck=${false} value=${value} onInput=${onInput} />`;
}

/**
 * A field for the name of a topic or a group, with a bounded list of suggestions.
 * @param {any} props
 */
export function NameInput({ kind, shared, value, change, api }) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      api
        .get(`${kind}s`, { search: value, limit: 20 }, stop.signal)
        .then((/** @type {any} */ found) => {
          const rows = found[`${kind}s`] ?? [];
          setNames(rows.map((/** @type {any} */ row) => row.name ?? row.group));
        })
        .catch(() => {}); // suggestions only; the act itself reports what fails
    }, 200);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [value]);
  const list = `names-of-${kind}-${shared.name}`;
  return html`<input ...${shared} type="text" list=${list} autocomplete="off" spellcheck=${false} value=${value}
      onInput=${(/** @type {any} */ event) => change(event.target.value)} />
    <datalist id=${list}>${names.map((/** @type {string} */ name) => html`<option value=${name}></option>`)}</datalist>`;
}
