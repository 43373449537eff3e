/** The manual's search, its copy buttons, and the keys: / begins a search, Enter opens the first
 * result, Escape ends it. */
"use strict";

const BASE = document.documentElement.dataset.base;
const MOST_RESULTS = 30;
const BEFORE = 60; // characters of a result's text before the first word that was found
const SHOWN = 220;

const query = document.getElementById("query");
const results = document.getElementById("results");

/** The sections of all pages: {location, title, page, text}. Loaded when the search is first used. */
let sections;

function load() {
  sections ??= fetch(`${BASE}/search/search_index.json`)
    .then((response) => {
      if (!response.ok) throw new Error(`${response.status} for the sections of all pages`);
      return response.json();
    })
    .then((found) => found.map((each) => ({
      ...each,
      lowerTitle: each.title.toLowerCase(),
      wordsOfTitle: new Set(each.title.toLowerCase().split(/[^\p{L}\d.-]+/u)),
      lowerText: each.text.toLowerCase(),
    })))
    .catch((error) => {
      sections = undefined; // the next search tries again
      throw error;
    });
  return sections;
}

/** How well a section fits, 0 if a word is missing. Titles count more than text, and whole words of them
 * more than parts. Equal ones keep their order in the index. */
function score(section, words) {
  let sum = 0;
  for (const word of words) {
    const inTitle = section.lowerTitle.includes(word);
    if (!inTitle && !section.lowerText.includes(word)) return 0;
    sum += inTitle ? 10 : 1;
    if (section.wordsOfTitle.has(word)) sum += 5;
  }
  return sum;
}

async function search() {
  const typed = query.value;
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  let all;
  try {
    all = words.length ? await load() : [];
  } catch {
    results.textContent = "The search cannot be loaded.";
    return;
  }
  if (typed !== query.value) return; // a later search has begun
  const found = all
    .map((section) => ({ section, points: score(section, words) }))
    .filter((each) => each.points > 0)
    .sort((one, other) => other.points - one.points)
    .slice(0, MOST_RESULTS);
  results.replaceChildren(...found.map((each) => shown(each.section, words)));
  if (words.length && !found.length) results.textContent = "Nothing was found.";
}

function shown(section, words) {
  const link = document.createElement("a");
  link.href = `${BASE}/${section.location}`;
  link.textContent = section.page === section.title ? section.title : `${section.page}: ${section.title}`;
  const text = document.createElement("p");
  const places = words.map((word) => section.lowerText.indexOf(word)).filter((place) => place >= 0);
  const start = places.length ? Math.max(0, Math.min(...places) - BEFORE) : 0;
  text.append(...marked(section.text.slice(start, start + SHOWN), words));
  const article = document.createElement("article");
  article.append(link, text);
  return article;
}

/** The text as nodes, with the words in <mark>. */
function marked(text, words) {
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text.split(new RegExp(`(${escaped.join("|")})`, "i")).map((part, index) => {
    if (index % 2 === 0) return part;
    const mark = document.createElement("mark");
    mark.textContent = part;
    return mark;
  });
}

/** Copy the commands of a block: of lines with a prompt only these, without it. */
async function copy(block, button) {
  const lines = block.textContent.trimEnd().split("\n");
  const typed = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
  const text = (typed.length ? typed : lines).join("\n");
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(block); // no clipboard without HTTPS: the reader copies it
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

for (const block of document.querySelectorAll("main pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", () => copy(block, button));
  const frame = document.createElement("div");
  frame.className = "code";
  block.replaceWith(frame);
  frame.append(block, button);
}

query.addEventListener("focus", () => load().catch(() => {})); // a search says that it failed
query.addEventListener("input", search);
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== query) {
    event.preventDefault();
    query.focus();
  } else if (event.key === "Escape") {
    query.value = "";
    search();
  } else if (event.key === "Enter" && document.activeElement === query) {
    results.querySelector("a")?.click();
  }
});
