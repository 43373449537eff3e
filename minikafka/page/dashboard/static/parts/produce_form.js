/**
 * The form that writes a record: a new one, or one that was read and edited.
 * @module
 */
import { CommandLine, usePreview } from "./act.js";
import { NameInput } from "./act_fields.js";
import { count, number } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { prettyJson, produceBody } from "./record_text.js";

const LONG = 64 * 1024; // characters; a longer text is neither indented nor put on a command line

/** @param {{form: any, set: (form: any) => void, api: any, written: (reply: any, body: any) => void, close: () => void}} props */
export function ProduceForm({ form, set, api, written, close }) {
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState(/** @type {any} */ (null));
  const box = useRef(/** @type {any} */ (null));
  useEffect(() => box.current?.querySelector(form.topic ? "textarea" : "input")?.focus(), []);
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) =>
    set({ ...form, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setSaid(null);
    const body = produceBody(form);
    try {
      const reply = await api.post("produce", body);
      setSaid({ text: `${count(body.count, "record")} written to partition ${reply.partition} at offset ${number(reply.offset)}.` });
      written(reply, body);
    } catch (error) {
      setSaid({ text: /** @type {Error} */ (error).message, bad: true });
    }
    setBusy(false);
  };
  const isLong = form.key.length + form.value.length > LONG;
  const pretty = form.encoding === "utf8" && !form.noValue && !isLong ? prettyJson(form.value) : null;
  return html`<form class="card produce" aria-label="Produce a record" onSubmit=${send} ref=${box}>
    <header class="detail-head"><h2>Produce</h2><span class="spread"></span>
      <button type="button" class="icon-button" aria-label="Close the form" onClick=${close}>×</button></header>
    <div class="fields">
      <label class="field"><span>topic <b title="required">*</b></span>
        <${NameInput} kind="topic" shared=${{ name: "produce-topic", required: true }} value=${form.topic} api=${api}
          change=${(/** @type {string} */ topic) => set({ ...form, topic })} /></label>
      <label class="field"><span>partition</span><input name="produce-partition" type="number" min="0" placeholder="by the key" value=${form.partition} onInput=${change("partition")} /></label>
      <label class="field"><span>encoding</span><select value=${form.encoding} onChange=${change("encoding")}>
        <option value="utf8">text (UTF-8)</option><option value="base64">bytes (base64)</option></select></label>
      <label class="field"><span>how many times</span><input name="produce-count" type="number" min="1" max="1000" value=${form.count} onInput=${change("count")} /></label>
    </div>
    <div class="field"><span class="row"><label for="produce-key">key</label>
      <label class="inline"><input type="checkbox" name="no-key" checked=${form.noKey} onChange=${change("noKey")} /> none</label></span>
      <input id="produce-key" name="produce-key" type="text" disabled=${form.noKey} value=${form.key} spellcheck=${false} onInput=${change("key")} /></div>
    <div class="field"><span class="row"><label for="produce-value">value${isLong ? `, ${count(form.value.length, "character")}` : ""}</label>
      <label class="inline"><input type="checkbox" name="no-value" checked=${form.noValue} onChange=${change("noValue")} /> none (a tombstone)</label>
      ${pretty !== null && pretty !== form.value && html`<button type="button" class="small" onClick=${() => set({ ...form, value: pretty })}>Indent JSON</button>`}</span>
      <textarea id="produce-value" name="produce-value" rows="6" disabled=${form.noValue} value=${form.value} spellcheck=${false} onInput=${change("value")}></textarea></div>
    <${Headers} headers=${form.headers} set=${(/** @type {any} */ headers) => set({ ...form, headers })} />
    ${form.topic && form.headers.length === 0 && form.encoding === "utf8" && !isLong && html`<${Shell} form=${form} api=${api} />`}
    ${said && html`<p class=${`notice ${said.bad ? "bad" : "good"}`} role=${said.bad ? "alert" : "status"}>${said.text}</p>`}
    <div class="row"><button class="primary" type="submit" disabled=${busy}>${busy ? "Writing…" : "Produce"}</button></div>
  </form>`;
}

/** @param {{form: any, api: any}} props */
function Shell({ form, api }) {
  const body = produceBody(form);
  /** @type {Record<string, any>} */
  const sent = { topic: body.topic };
  if (body.partition !== null) sent.partition = body.partition;
  if (body.key !== null) sent.key = body.key;
  if (body.value !== null) sent.value = body.value;
  const preview = usePreview(api, "produce", sent, false);
  return preview.command ? html`<${CommandLine} preview=${preview} />` : null;
}

/** @param {{headers: import("./record_text.js").Header[], set: (headers: any) => void}} props */
function Headers({ headers, set }) {
  const put = (/** @type {number} */ at, /** @type {number} */ place, /** @type {string} */ text) =>
    set(headers.map((header, i) => (i === at ? header.with(place, text) : header)));
  return html`<fieldset class="headers-form"><legend>headers</legend>
    ${headers.map((header, i) => html`<div class="row" key=${i}>
      <input type="text" placeholder="name" aria-label=${`Name of header ${i + 1}`} value=${header[0]} onInput=${(/** @type {any} */ event) => put(i, 0, event.target.value)} />
      <input type="text" placeholder=${header[1] === null ? "null" : "value"} aria-label=${`Value of header ${i + 1}`} value=${header[1] ?? ""} onInput=${(/** @type {any} */ event) => put(i, 1, event.target.value)} />
      <button type="button" class="small" aria-label=${`Remove header ${i + 1}`} onClick=${() => set(headers.filter((_, k) => k !== i))}>Remove</button>
      ${header[2] === "base64" && html`<span class="tag">base64</span>`}
    </div>`)}
    <button type="button" class="small" onClick=${() => set([...headers, ["", ""]])}>Add a header</button>
  </fieldset>`;
}
