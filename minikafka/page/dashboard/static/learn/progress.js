/** Which chapters the reader has begun and finished, remembered in this browser. */

const KEY = "minikafka.learn";

/** @typedef {{last?: string, chapters: Object<string, {beats: number, done: boolean}>}} Progress */

/** @returns {Progress} */
export function readProgress() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return { last: found.last, chapters: found.chapters ?? {} };
  } catch {
    return { chapters: {} }; // an older page wrote something else
  }
}

/** @param {import("./model.js").Playback} playback @param {import("./model.js").Beat[]} beats */
export function keepProgress({ chapter, story }, beats) {
  if (!chapter || !story || story === "left") return;
  const progress = readProgress();
  const before = progress.chapters[chapter] ?? { beats: 0, done: false };
  const now = {
    beats: Math.max(before.beats, beats.at(-1)?.number ?? 0),
    done: before.done || story === "done",
  };
  if (progress.last === chapter && now.beats === before.beats && now.done === before.done) return;
  progress.chapters[chapter] = now;
  progress.last = chapter;
  localStorage.setItem(KEY, JSON.stringify(progress));
}
