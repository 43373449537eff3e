/** Acts of this browser without a reply: what a dialog notes, and `runs.js` looks for. */

import { signal } from "../vendor/signals.js";

const PENDING = "minikafka.pending"; // how many acts of this browser have had no reply

export const looks = signal(0); // changes when acts shall be looked for

let leaving = false; // then requests fail that the page's process goes on with
addEventListener("beforeunload", () => { leaving = true; });
addEventListener("pageshow", () => { leaving = false; });

/** Note that an act has begun (1) or has replied (-1). @param {number} by */
export function notePending(by) {
  if (leaving) return;
  const count = Math.max(0, Number(localStorage.getItem(PENDING) ?? 0) + by);
  if (count) localStorage.setItem(PENDING, String(count));
  else localStorage.removeItem(PENDING);
}

/** Whether an act of this browser has had no reply. */
export function hasPending() {
  return localStorage.getItem(PENDING) !== null;
}

/** The acts are found. */
export function forgetPending() {
  localStorage.removeItem(PENDING);
}
