/**
 * Acts that this browser has begun and whose reply it has not seen, since the page was reloaded or
 * the dialog closed: the page's process has kept them.
 * @module
 */
import { CommandLine } from "./act.js";
import { duration } from "./format.js";
import { html, useEffect, useState } from "./html.js";
import { Output } from "./output.js";
import { forgetPending, hasPending, looks } from "./pending.js";

const EVERY_MS = 1000;
/**
 * @typedef {{id: number, title: string, command: string, dry_run: boolean, begun_ms: number, ended_ms: number|null,
 *   status: number|null, errors: string, output?: string}} Run
 * @param {{api: any}} props
 */
export function FoundRuns({ api }) {
  const [runs, setRuns] = useState(/** @type {Run[]} */ ([]));
  const [look, setLook] = useState(0);
  useEffect(() => looks.subscribe(setLook), []);
  useEffect(() => {
    if (!hasPending()) return undefined;
    forgetPending();
    let over = false;
    let timer = 0;
    /** @param {number[]} ids */
    const follow = async (ids) => {
      try {
        const found = /** @type {Run[]} */ (await Promise.all(ids.map((id) => api.get(`runs/${id}`))));
        if (over) return;
        setRuns(found);
        if (found.some((run) => run.ended_ms === null)) timer = setTimeout(() => follow(ids), EVERY_MS);
      } catch {
        setRuns([]); // the page's process was started again, which ends its acts
      }
    };
    // Those that run, and the newest one, which may have ended while the page was loaded.
    api.get("runs").then(
      (/** @type {Run[]} */ all) => follow(all.filter((run, i) => run.ended_ms === null || i === 0).map(({ id }) => id)),
      () => {},
    );
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [look]);
  return runs.map((/** @type {Run} */ run) => html`<${OneRun} key=${run.id} run=${run} dismiss=${() => setRuns(runs.filter((/** @type {Run} */ one) => one.id !== run.id))} />`);
}

/** @param {{run: Run, dismiss: () => void}} props */
function OneRun({ run, dismiss }) {
  const running = run.ended_ms === null;
  const failed = !running && run.status !== 0;
  const state = running ? `is running for ${duration(1000 * Math.floor((Date.now() - run.begun_ms) / 1000))}` : failed ? "has failed" : "is done";
  return html`<section class=${`card run ${failed ? "failed" : ""}`} aria-label="An act of before">
    <div class="toolbar">
      <span role="status"><strong>${run.title}${run.dry_run ? " (dry run)" : ""}</strong> ${state}. ${run.errors}</span>
      <span class="spread"></span>
      ${!running && html`<button type="button" class="small" onClick=${dismiss}>Dismiss</button>`}
    </div>
    <details open=${failed}><summary>Command and output</summary>
      <${CommandLine} preview=${{ command: run.command, problem: "" }} />
      <${Output} value=${run.output} />
    </details>
  </section>`;
}
