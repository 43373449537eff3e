/**
 * The dial of a purgatory: its timing wheels as rings, the coarsest outside. Tasks move inwards when
 * they are demoted, and leave at the centre when they expire. Between two facts of a broker the page
 * moves the wheels on by itself, at full speed or slower.
 */

import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { Node, Picture } from "../parts/svg.js";
import { count as counted, duration } from "../parts/format.js";
import { still } from "../parts/theme.js";
import {
  advance,
  count,
  countAll,
  currentSlot,
  handAngle,
  onCircle,
  ringPath,
  slotAngle,
  wheelsOf,
} from "./wheel_model.js";

/** @typedef {import("./wheel_model.js").Wheels} Wheels */
/** @typedef {import("./wheel_model.js").Wheel} Wheel */

const MARGIN = 14; // around the outermost ring
const CORE = 0.2; // of the radius
const GAP = 5; // between rings
const NUMBERED = 26; // px: rings that are thicker show the numbers of some slots
const DOTS = 3; // tasks drawn one by one in a slot
const LONGEST_MS = 1500; // without new facts the wheels stand as the last facts say
const SLOW_FOR_MS = 60_000; // in slow motion the same facts are shown for so long at most

/** How much slower than the broker the wheels turn; 0: not at all. */
export const SPEEDS = [
  { slower: 1, label: "real time" },
  { slower: 20, label: "20 × slower" },
  { slower: 200, label: "200 × slower" },
  { slower: 0, label: "still" },
];

/** @returns {number} the speed to begin with; in learn mode time passes only in the facts */
export function firstSpeed() {
  return still() || document.documentElement.dataset.mode === "learn" ? 0 : 1;
}

/**
 * Return the wheels of the newest facts, moved on to now, and a function that gives the broker's
 * time at the present frame. The component is drawn again when a task moves, not at each frame.
 *
 * @param {any} facts of kind `purgatory` @param {number} slower see `SPEEDS`
 * @returns {{model: Wheels, now: () => number, expired: number}}
 */
export function useWheels(facts, slower) {
  const shown = useRef(/** @type {any} */ (null));
  const [, draw] = useState(0);
  const current = shown.current;
  const fresh = !current || current.slower !== slower || current.name !== facts.name;
  if (fresh || (current.facts !== facts && (slower < 2 || isOver(current)))) {
    shown.current = begin(facts, slower, fresh ? 0 : current.expired);
  }
  useEffect(() => {
    if (slower === 0) return undefined;
    let frame = requestAnimationFrame(function turn() {
      const one = shown.current;
      if (slower === 1 && !one.stands && performance.now() - one.startedMs > LONGEST_MS) {
        shown.current = { ...begin(one.newest, slower, one.expired), stands: true };
        draw(again);
      }
      const moves = advance(shown.current.model, timeOf(shown.current));
      one.expired += moves.filter(({ to }) => to === null).length;
      if (moves.length || (slower > 1 && isOver(one) && one.newest !== one.facts))
        draw(again);
      frame = requestAnimationFrame(turn);
    });
    return () => cancelAnimationFrame(frame);
  }, [slower]);
  shown.current.newest = facts;
  const one = shown.current;
  return { model: one.model, now: () => timeOf(one), expired: one.expired };
}

/** @param {number} n */
function again(n) {
  return n + 1;
}

/** @param {any} facts @param {number} slower @param {number} expired */
function begin(facts, slower, expired) {
  const model = wheelsOf(facts);
  return {
    facts,
    newest: facts,
    name: facts.name,
    slower,
    model,
    expired,
    fromMs: model.nowMs,
    startedMs: performance.now(),
  };
}

/** @param {any} one */
function timeOf(one) {
  if (one.slower === 0 || one.stands) return one.fromMs;
  return one.fromMs + (performance.now() - one.startedMs) / one.slower;
}

/** Whether there is nothing left to see of these facts. @param {any} one */
function isOver(one) {
  const waits = one.model.wheels.some((/** @type {Wheel} */ wheel) =>
    [...wheel.buckets.values()].some(({ tasks }) => tasks.length),
  );
  return !waits || performance.now() - one.startedMs > SLOW_FOR_MS;
}

/**
 * Return the radii of the rings, finest first: the finest is the innermost.
 *
 * @param {number} size of the square @param {number} rings
 */
export function radii(size, rings) {
  const outer = size / 2 - MARGIN;
  const core = outer * CORE;
  const thick = (outer - core) / Math.max(rings, 1);
  return Array.from({ length: rings }, (_, i) => ({
    inner: core + i * thick + GAP / 2,
    outer: core + (i + 1) * thick - GAP / 2,
  }));
}

/**
 * @param {{model: Wheels, now: () => number, size: number, label: string, moving: boolean,
 *   expired: number}} props
 */
export function Dial({ model, now, size, label, moving, expired }) {
  const rings = radii(size, model.wheels.length);
  const middle = size / 2;
  const parked = model.wheels.reduce((sum, wheel) => sum + countAll(wheel), 0) + model.loose.length;
  return html`<${Picture} label=${label} width=${size} height=${size} class="dial">
    <g transform=${`translate(${middle} ${middle})`}>
      ${model.wheels.map(
        (wheel, i) => html`<${Ring} key=${wheel.level} wheel=${wheel}
        ring=${rings[i]} nowMs=${model.nowMs} />`,
      )}
      <${Dots} model=${model} rings=${rings} />
      <${Hands} model=${model} rings=${rings} now=${now} moving=${moving} />
      <${Node} label=${`${counted(parked, "operation")} parked`}>
        <circle class="dial-core" r=${Math.max(10, rings.length ? rings[0].inner - GAP : 10)} />
        ${expired > 0 && html`<circle key=${expired} class="dial-flash" r=${rings[0].inner - GAP} />`}
        <text class="dial-count" y="0.36em">${parked}</text>
      <//>
    </g>
  <//>`;
}

/** @param {{wheel: Wheel, ring: {inner: number, outer: number}, nowMs: number}} props */
function Ring({ wheel, ring, nowMs }) {
  const here = currentSlot(wheel);
  /** @type {string[]} */
  const paths = useMemo(
    () =>
      Array.from({ length: wheel.size }, (_, slot) =>
        ringPath(
          ring.inner,
          ring.outer,
          (slot * 360) / wheel.size,
          ((slot + 1) * 360) / wheel.size,
        ),
      ),
    [wheel.size, ring.inner, ring.outer],
  );
  const all = countAll(wheel);
  const label = `Level ${wheel.level}: ${wheel.size} slots of ${duration(wheel.tickMs)}, ${counted(all, "task")}; it stands at slot ${here}`;
  return html`<g class="ring">
    <${Node} label=${label}>
      ${paths.map(
        (path, slot) => html`<path key=${slot} d=${path}
        class=${`slot ${slot === here ? "here" : ""} ${slot % 5 === 0 ? "fifth" : ""}`} />`,
      )}
    <//>
    ${[...wheel.buckets.values()]
      .filter((bucket) => count(bucket))
      .map(
        (bucket) => html`<${Node}
      key=${bucket.slot} label=${`Level ${wheel.level}, slot ${bucket.slot}: ${counted(count(bucket), "task")}${
        bucket.more ? " or more" : ""
      }, due in ${duration(Math.max(0, Math.round(bucket.startMs - nowMs)))}`}>
      <path d=${paths[bucket.slot]} class="slot used" /><//>`,
      )}
    ${
      ring.outer - ring.inner > NUMBERED &&
      [0, 5, 10, 15]
        .filter((slot) => slot < wheel.size)
        .map((slot) => {
          const at = onCircle(ring.outer - 7, slotAngle(slot, wheel.size));
          return html`<text key=${slot} class="slot-number" x=${at.x} y=${at.y} dy="0.35em" aria-hidden="true">${slot}</text>`;
        })
    }
    <path class="slot-here" d=${ringPath(ring.outer - 2.5, ring.outer, (here * 360) / wheel.size, ((here + 1) * 360) / wheel.size)} />
  </g>`;
}

/** The tasks, each at its place. A task that has moved glides to its new place.
 * @param {{model: Wheels, rings: {inner: number, outer: number}[]}} props */
function Dots({ model, rings }) {
  const dots = model.wheels.flatMap((wheel, i) =>
    [...wheel.buckets.values()].flatMap((bucket) => dotsOf(wheel, bucket, rings[i])),
  );
  return html`<g aria-hidden="true">${dots
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(
      ({ key, x, y, text, r }) => html`<g key=${key}
    class="task" style=${{ transform: `translate(${x}px, ${y}px)` }}>
    <circle r=${r} /><text y="0.35em">${text}</text></g>`,
    )}</g>`;
}

/** @param {Wheel} wheel @param {import("./wheel_model.js").Bucket} bucket
 * @param {{inner: number, outer: number}} ring */
function dotsOf(wheel, bucket, ring) {
  const all = count(bucket);
  const angle = slotAngle(bucket.slot, wheel.size);
  const thick = ring.outer - ring.inner;
  const r = Math.max(3, Math.min(7, thick / 4, (Math.PI * ring.inner) / wheel.size));
  if (all > DOTS || bucket.hidden > 0) {
    const at = onCircle((ring.inner + ring.outer) / 2, angle);
    return all
      ? [
          {
            key: `${wheel.level}/${bucket.slot}`,
            ...at,
            r: r + 2,
            text: bucket.more ? "99+" : String(all),
          },
        ]
      : [];
  }
  return bucket.tasks.map((task, i) => {
    const radius = ring.inner + (thick * (i + 1)) / (all + 1);
    return {
      key: task.id,
      ...onCircle(radius, angle),
      r: all > 1 ? Math.min(r, thick / (2 * all + 1)) : r,
      text: "",
    };
  });
}

/** The hands: where the clock is in each wheel. They are turned without drawing the rest again.
 * @param {{model: Wheels, rings: {inner: number, outer: number}[], now: () => number,
 *   moving: boolean}} props */
function Hands({ model, rings, now, moving }) {
  const hands = useRef(/** @type {(SVGElement|null)[]} */ ([]));
  const turn = () => {
    const nowMs = now();
    model.wheels.forEach((wheel, i) => {
      hands.current[i]?.setAttribute("transform", `rotate(${handAngle(wheel, nowMs).toFixed(2)})`);
    });
  };
  useEffect(() => {
    turn();
    if (!moving) return undefined;
    let frame = requestAnimationFrame(function next() {
      turn();
      frame = requestAnimationFrame(next);
    });
    return () => cancelAnimationFrame(frame);
  });
  return html`<g class="hands" aria-hidden="true">${model.wheels.map(
    (wheel, i) => html`<g key=${wheel.level}
    data-level=${wheel.level} ref=${(/** @type {any} */ element) => {
      hands.current[i] = element;
    }}>
    <line y1=${-rings[i].inner + 1} y2=${-rings[i].outer - 1} />
    <path d=${`M0 ${-rings[i].outer + 3}l-4 -7h8z`} /></g>`,
  )}</g>`;
}

/** A small dial for a list: rings, and the slots in use. @param {{facts: any, size?: number}} props */
export function SmallDial({ facts, size = 44 }) {
  const { wheels } = wheelsOf(facts);
  const thick = Math.min(5, (size / 2 - 4) / Math.max(1, wheels.length));
  return html`<svg class="small-dial" width=${size} height=${size} viewBox=${`${-size / 2} ${-size / 2} ${size} ${size}`}
    aria-hidden="true">${wheels.map((wheel, i) => {
      const middle = 5 + thick * (i + 0.5);
      const used = [...wheel.buckets.values()].filter((bucket) => count(bucket));
      return html`<g key=${wheel.level}><circle r=${middle} class="small-ring" stroke-width=${thick - 1.5} />
        ${used.map(
          ({ slot }) => html`<path key=${slot} class="small-used"
          d=${ringPath(middle - thick / 2, middle + thick / 2, (slot * 360) / wheel.size - 4, ((slot + 1) * 360) / wheel.size + 4)} />`,
        )}</g>`;
    })}</svg>`;
}
