/**
 * Messages that fly along links. The marks are moved at each frame, outside of the components, as
 * a component a frame would be too slow. Pure parts: which messages are shown, and where.
 */

import { still } from "../parts/theme.js";
import { markOf } from "./api_marks.js";

const MOST = 80; // messages in the air at once
const SHORTEST_MS = 420; // of the reader's time: a faster flight could not be followed
const TYPICAL_US = 1000;
const SVG = "http://www.w3.org/2000/svg";

/** @typedef {import("./model.js").Wire} Wire */

/** Return how far a message is, 0 to 1, or null if it is not in the air. One that flies for less
 * than `leastUs` of the cluster is shown for longer.
 * @param {Wire} wire @param {number} nowUs @param {number} leastUs */
export function progressOf(wire, nowUs, leastUs) {
  const passed = nowUs - wire.sent_us;
  if (passed < 0) return null;
  if (wire.lost) return passed < leastUs * 1.5 ? Math.min(0.5, passed / Math.max(1, leastUs)) : null;
  if (wire.arrived_us === null) { // nobody knows when it will arrive
    return Math.min(0.85, (0.85 * passed) / (passed + Math.max(TYPICAL_US, leastUs / 2)));
  }
  const flies = Math.max(wire.arrived_us - wire.sent_us, leastUs);
  return passed <= flies ? passed / flies : null;
}

/** Return the messages in the air, newest first, at most `MOST`.
 * @param {Map<number, Wire>} wire @param {number} nowUs @param {number} leastUs
 * @returns {{wire: Wire, progress: number}[]} */
export function inTheAir(wire, nowUs, leastUs) {
  const found = [];
  const all = [...wire.values()];
  for (let i = all.length - 1; i >= 0 && found.length < MOST; i--) {
    const progress = progressOf(all[i], nowUs, leastUs);
    if (progress !== null) found.push({ wire: all[i], progress });
  }
  return found;
}

/** Where a message is: the two directions of a link pass beside each other.
 * @param {{x: number, y: number}} from @param {{x: number, y: number}} to @param {number} progress */
export function between(from, to, progress) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const part = 0.12 + 0.76 * progress; // it starts and ends at the hosts' edges
  return { x: from.x + dx * part - (dy / length) * 6, y: from.y + dy * part + (dx / length) * 6 };
}

/**
 * Draw the flights into a group until the returned function is called.
 * @param {SVGGElement} layer @param {import("./session.js").LearnSession} session
 * @param {() => Map<string, {x: number, y: number}>} places
 * @param {(wire: Wire) => void} choose called when a mark is clicked
 * @returns {() => void}
 */
export function drawFlights(layer, session, places, choose) {
  /** @type {Map<number, SVGGElement>} */
  const marks = new Map();
  const calm = still();
  const draw = () => {
    const moves = session.playing.value && !calm;
    const leastUs = moves ? SHORTEST_MS * session.pace.value : 0;
    const flying = inTheAir(session.model.value.wire, moves ? session.shownUs() : session.now, leastUs);
    const seen = new Set();
    /** @type {{x: number, y: number}[]} */
    const named = []; // where names are: of two that would overlap, the newer message has one
    for (const { wire, progress } of flying) {
      const [from, to] = [places().get(wire.source), places().get(wire.target)];
      if (!from || !to) continue;
      seen.add(wire.number);
      const mark = marks.get(wire.number) ?? addMark(layer, wire, choose);
      marks.set(wire.number, mark);
      const { x, y } = between(from, to, progress);
      mark.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      const hidden = named.some((one) => Math.abs(one.x - x) < 66 && Math.abs(one.y - y) < 12);
      if (!hidden) named.push({ x, y });
      const look = lookOf(session.model.value.wire.get(wire.number) ?? wire);
      mark.setAttribute("class", hidden ? `${look} unnamed` : look);
    }
    for (const [number, mark] of marks) {
      if (seen.has(number)) continue;
      mark.remove();
      marks.delete(number);
    }
  };
  let frame = requestAnimationFrame(function next() {
    draw();
    frame = requestAnimationFrame(next);
  });
  return () => {
    cancelAnimationFrame(frame);
    layer.replaceChildren();
  };
}

/** @param {SVGGElement} layer @param {Wire} wire @param {(wire: Wire) => void} choose */
function addMark(layer, wire, choose) {
  const { color, path } = markOf(wire.api);
  const mark = document.createElementNS(SVG, "g");
  const title = document.createElementNS(SVG, "title");
  title.textContent = describe(wire);
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", path);
  shape.setAttribute("class", "shape");
  shape.style.setProperty("--api", color);
  const name = document.createElementNS(SVG, "text");
  name.textContent = wire.api;
  name.setAttribute("x", "9");
  name.setAttribute("y", "4");
  mark.append(title, shape, name);
  mark.addEventListener("click", () => choose(wire));
  layer.append(mark);
  return mark;
}

/** @param {Wire} wire */
function lookOf({ request, lost, held }) {
  return `flying ${request ? "request" : "response"}${lost ? " lost" : ""}${held ? " held" : ""}`;
}

/** @param {Wire} wire */
export function describe({ api, request, source, target, correlation_id: id, lost, held }) {
  return `${api} ${request ? "request" : "response"} ${id} from ${source} to ${target}${
    lost ? ", lost" : held ? ", held" : ""}`;
}
