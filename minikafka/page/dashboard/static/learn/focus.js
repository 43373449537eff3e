/** What a sentence points at: the view to open, and the entities to mark in it. */

import { hashOf } from "../route.js";

const STORY_VIEWS = new Set([
  "stage", "wire", "cluster", "lanes", "controller", "purgatories", "groups", "transactions",
  "requests", "sessions", "throttles", "topics", "events", "why",
]);

/** The views of entities, where the focus names no view. @type {Object<string, string>} */
const VIEW_OF = {
  host: "stage", partition: "lanes", purgatory: "purgatories", controller: "controller", group: "groups",
  consumer_group: "groups", transaction: "transactions", txn: "transactions", session: "sessions",
  node: "cluster", broker: "cluster", topic: "topics",
};

/** Return the address of what the focus is about, or null.
 * @param {string[]} focus @returns {string|null} */
export function placeOfFocus(focus) {
  const named = focus.find((one) => STORY_VIEWS.has(one));
  const entities = focus.filter((one) => one.includes("|")).map((one) => one.split("|"));
  const path = named ?? VIEW_OF[entities[0]?.[0]];
  if (!path) return null;
  const shown = entities.find(([kind]) => VIEW_OF[kind] === path);
  if (shown && path === "purgatories") return hashOf(path, { broker: shown[1], name: shown.slice(2).join("|") });
  if (shown && path === "groups") return hashOf(path, { name: shown.slice(2).join("|") });
  return hashOf(path);
}

/** Mark the elements of the entities that a focus names, and return how to take the marks away.
 * Elements carry `data-entity="kind|broker|name"`; views that draw later are marked as they come.
 * @param {string[]} focus @returns {() => void} */
export function markFocus(focus) {
  const wanted = focus.filter((one) => one.includes("|")).map(parts);
  const main = document.getElementById("main");
  if (!main) return () => {};
  const mark = () => {
    for (const element of main.querySelectorAll("[data-entity]")) {
      const entity = parts(/** @type {string} */ (element.getAttribute("data-entity")));
      const on = wanted.some((one) => matches(one, entity));
      if (on !== element.hasAttribute("data-focus")) element.toggleAttribute("data-focus", on);
    }
  };
  mark();
  let shown = show(main);
  const observer = new MutationObserver(() => {
    mark();
    shown = shown || show(main); // a view that draws later
  });
  observer.observe(main, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-entity"] });
  return () => {
    observer.disconnect();
    for (const element of main.querySelectorAll("[data-focus]")) element.removeAttribute("data-focus");
  };
}

/** Scroll so that what the sentence is about can be seen. @param {Element} main
 * @returns {boolean} whether there is such a thing */
function show(main) {
  const last = [...main.querySelectorAll("[data-focus]")].at(-1);
  if (!last) return false;
  const { top, bottom } = last.getBoundingClientRect();
  const seen = top >= 60 && bottom <= innerHeight - 80; // between the header and the transport
  if (!seen) last.scrollIntoView({ block: bottom - top > innerHeight / 2 ? "start" : "center" });
  keepSentence(main);
  return true;
}

/** Where the story stands above the views, on narrow screens, scroll back until its newest sentence
 * is below the header: what it is about is of no use without it. @param {Element} main */
function keepSentence(main) {
  const list = document.querySelector(".story .beats")?.getBoundingClientRect();
  const sentence = document.querySelector(".story .beat.current")?.getBoundingClientRect();
  const header = document.querySelector(".top")?.getBoundingClientRect();
  if (!list || !sentence || !header || list.bottom > main.getBoundingClientRect().top) return;
  const hidden = header.bottom + 8 - Math.max(list.top, sentence.top);
  if (hidden > 0) scrollBy(0, -hidden);
}

/** The protocol and a coordinator report the same group. @type {Object<string, string>} */
const SAME = { consumer_group: "group", txn: "transaction" };

/** @param {string} entity "kind|broker|name", or "host|name" @returns {string[]} */
function parts(entity) {
  const [kind, broker, ...name] = entity.split("|");
  return name.length ? [SAME[kind] ?? kind, broker, name.join("|")] : [kind, "", broker];
}

/** A side without a broker matches that of any broker. @param {string[]} one @param {string[]} other */
function matches(one, other) {
  return one[0] === other[0] && one[2] === other[2] && (one[1] === other[1] || !one[1] || !other[1]);
}
