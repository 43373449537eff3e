/**
 * The timing wheels of one purgatory, rebuilt from a broker's facts, so that a page can move them on
 * between two facts as the broker does (`minikafka/core/timer.py`).
 *
 * A wheel of `size` slots stands for the `intervalMs = tickMs * size` that follow its current time.
 * A task lies in slot `floor(expiration / tickMs) % size` of the finest wheel that reaches its
 * expiration. When a slot of a coarse wheel comes due, its tasks move to a finer one: they are
 * demoted. When a slot of the finest wheel comes due, its tasks have expired.
 *
 * Nothing here reads a clock or draws.
 */

/**
 * @typedef {{id: string, kind: string, keys: string[], moreKeys: boolean, delayMs: number,
 *   expirationMs: number}} Task an operation whose expiration is known
 * @typedef {{slot: number, startMs: number, tasks: Task[], hidden: number, more: boolean}} Bucket
 *   `hidden` tasks are counted by the broker, but are not among the operations that it lists; with
 *   `more` there are even more than counted
 * @typedef {{level: number, tickMs: number, size: number, intervalMs: number, currentMs: number,
 *   buckets: Map<number, Bucket>}} Wheel
 * @typedef {{nowMs: number, wheels: Wheel[], loose: Task[]}} Wheels `loose` tasks are in no bucket:
 *   they were added and removed while the broker wrote its facts, or are already due
 * @typedef {{task: Task, from: {level: number, slot: number}, to: {level: number, slot: number}|null}}
 *   Move `to` is null for a task that has expired
 */

/**
 * Return the broker's monotonic time at which the facts were made. Facts of an older broker do not
 * name it; then it is derived from the next wake-up, which is the start of the first bucket in use.
 *
 * @param {any} facts of kind `purgatory`
 * @returns {number}
 */
export function nowOf(facts) {
  if (typeof facts.now_ms === "number") return facts.now_ms;
  const wheels = facts.wheels || [];
  const current = wheels.length ? wheels[0].current_time_ms : 0;
  const starts = [];
  for (const wheel of wheels) {
    for (const bucket of wheel.buckets)
      starts.push(startOf(wheel.current_time_ms, wheel.tick_ms, wheel.wheel_size, bucket.slot));
  }
  if (!starts.length || facts.next_wake_up_in_ms == null) return current;
  return Math.max(current, Math.min(...starts) - facts.next_wake_up_in_ms);
}

/**
 * Return when a slot comes due: the first time from `currentMs` on that falls into the slot.
 *
 * @param {number} currentMs @param {number} tickMs @param {number} size @param {number} slot
 */
export function startOf(currentMs, tickMs, size, slot) {
  const current = Math.floor(currentMs / tickMs);
  const ahead = (slot - (current % size) + size) % size;
  return (current + ahead) * tickMs;
}

/** Return the slot in which a wheel stands. @param {Wheel} wheel */
export function currentSlot(wheel) {
  return Math.floor(wheel.currentMs / wheel.tickMs) % wheel.size;
}

/** Return the number of tasks in a bucket. @param {Bucket|undefined} bucket */
export function count(bucket) {
  return bucket ? bucket.tasks.length + bucket.hidden : 0;
}

/** Return the number of tasks of a wheel. @param {Wheel} wheel */
export function countAll(wheel) {
  let sum = 0;
  for (const bucket of wheel.buckets.values()) sum += count(bucket);
  return sum;
}

/**
 * Return the wheels of a purgatory, with each listed operation in its bucket.
 *
 * @param {any} facts of kind `purgatory`
 * @returns {Wheels}
 */
export function wheelsOf(facts) {
  const nowMs = nowOf(facts);
  const wheels = (facts.wheels || []).map((/** @type {any} */ row) => wheelOf(row));
  const loose = [];
  for (const task of tasksOf(facts, nowMs)) {
    const bucket = bucketFor(wheels, task);
    if (bucket) {
      bucket.tasks.push(task);
      bucket.hidden -= 1;
    } else {
      loose.push(task);
    }
  }
  return { nowMs, wheels, loose };
}

/** @param {any} row @returns {Wheel} */
function wheelOf(row) {
  const buckets = new Map();
  for (const { slot, tasks, more } of row.buckets) {
    const startMs = startOf(row.current_time_ms, row.tick_ms, row.wheel_size, slot);
    buckets.set(slot, { slot, startMs, tasks: [], hidden: tasks, more: Boolean(more) });
  }
  return {
    level: row.level,
    tickMs: row.tick_ms,
    size: row.wheel_size,
    intervalMs: row.interval_ms,
    currentMs: row.current_time_ms,
    buckets,
  };
}

/**
 * Return the operations as tasks. An expiration is the same in all facts about an operation, so it
 * identifies the operation together with its kind and keys.
 *
 * @param {any} facts @param {number} nowMs
 * @returns {Task[]}
 */
export function tasksOf(facts, nowMs) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  return (facts.operations || []).map((/** @type {any} */ row) => {
    const expirationMs = nowMs + row.delay_ms - row.age_ms;
    const name = `${row.kind} ${expirationMs} ${row.keys[0] ?? ""}`;
    const again = (seen.get(name) || 0) + 1;
    seen.set(name, again);
    return {
      id: again > 1 ? `${name} ${again}` : name,
      kind: row.kind,
      keys: row.keys,
      moreKeys: Boolean(row.more_keys),
      delayMs: row.delay_ms,
      expirationMs,
    };
  });
}

/**
 * Return the bucket in which a task lies: the finest whose span holds its expiration and which has
 * room for one more of the tasks that the broker has counted.
 *
 * @param {Wheel[]} wheels @param {Task} task
 */
function bucketFor(wheels, task) {
  for (const wheel of wheels) {
    const bucket = wheel.buckets.get(Math.floor(task.expirationMs / wheel.tickMs) % wheel.size);
    const starts = Math.floor(task.expirationMs / wheel.tickMs) * wheel.tickMs;
    if (bucket && bucket.startMs === starts && (bucket.hidden > 0 || bucket.more)) return bucket;
  }
  return null;
}

/**
 * Move the wheels on to `nowMs`, in place, as `Timer.advance` does, and return what has moved, in
 * order. Hidden tasks cannot be demoted: they stay in their bucket until the next facts.
 *
 * @param {Wheels} model @param {number} nowMs
 * @returns {Move[]}
 */
export function advance(model, nowMs) {
  /** @type {Move[]} */
  const moves = [];
  for (;;) {
    const due = firstDue(model.wheels, nowMs);
    if (!due) break;
    const { wheel, bucket } = due;
    advanceClocks(model.wheels, bucket.startMs);
    const tasks = bucket.tasks;
    bucket.tasks = [];
    if (!bucket.hidden) wheel.buckets.delete(bucket.slot);
    for (const task of tasks) {
      moves.push({
        task,
        from: { level: wheel.level, slot: bucket.slot },
        to: place(model.wheels, task),
      });
    }
  }
  advanceClocks(model.wheels, nowMs);
  model.nowMs = Math.max(model.nowMs, nowMs);
  return moves;
}

/** @param {Wheel[]} wheels @param {number} nowMs */
function firstDue(wheels, nowMs) {
  let first = null;
  for (const wheel of wheels) {
    for (const bucket of wheel.buckets.values()) {
      if (!bucket.tasks.length || bucket.startMs > nowMs) continue;
      if (!first || bucket.startMs < first.bucket.startMs) first = { wheel, bucket };
    }
  }
  return first;
}

/** @param {Wheel[]} wheels @param {number} timeMs */
function advanceClocks(wheels, timeMs) {
  for (const wheel of wheels) {
    if (timeMs < wheel.currentMs + wheel.tickMs) return;
    wheel.currentMs = Math.floor(timeMs / wheel.tickMs) * wheel.tickMs;
    timeMs = wheel.currentMs;
  }
}

/**
 * Put a task into the finest wheel that reaches it. Null if it is due.
 *
 * @param {Wheel[]} wheels @param {Task} task
 */
function place(wheels, task) {
  if (!wheels.length || task.expirationMs < wheels[0].currentMs + wheels[0].tickMs) return null;
  const wheel = wheels.find((one) => task.expirationMs < one.currentMs + one.intervalMs);
  if (!wheel) return null;
  const virtual = Math.floor(task.expirationMs / wheel.tickMs);
  const slot = virtual % wheel.size;
  const bucket = wheel.buckets.get(slot) || {
    slot,
    startMs: virtual * wheel.tickMs,
    tasks: [],
    hidden: 0,
    more: false,
  };
  bucket.tasks.push(task);
  wheel.buckets.set(slot, bucket);
  return { level: wheel.level, slot };
}

/** Return the middle of a slot in degrees clockwise from the top. @param {number} slot @param {number} size */
export function slotAngle(slot, size) {
  return ((slot + 0.5) * 360) / size;
}

/**
 * Return where the hand of a wheel points at a time, in degrees clockwise from the top. It crosses
 * the edge of a slot when the slot comes due.
 *
 * @param {{intervalMs: number}} wheel @param {number} nowMs
 */
export function handAngle(wheel, nowMs) {
  return ((nowMs % wheel.intervalMs) / wheel.intervalMs) * 360;
}

/** Return a point on a circle around 0, 0. @param {number} radius @param {number} degrees */
export function onCircle(radius, degrees) {
  const radians = (degrees * Math.PI) / 180;
  return { x: round(radius * Math.sin(radians)), y: round(-radius * Math.cos(radians)) };
}

/**
 * Return the SVG path of a piece of a ring.
 *
 * @param {number} inner @param {number} outer @param {number} fromDegrees @param {number} toDegrees
 */
export function ringPath(inner, outer, fromDegrees, toDegrees) {
  const a = onCircle(outer, fromDegrees);
  const b = onCircle(outer, toDegrees);
  const c = onCircle(inner, toDegrees);
  const d = onCircle(inner, fromDegrees);
  const large = toDegrees - fromDegrees > 180 ? 1 : 0;
  return `M${a.x} ${a.y}A${outer} ${outer} 0 ${large} 1 ${b.x} ${b.y}L${c.x} ${c.y}A${inner} ${inner} 0 ${large} 0 ${d.x} ${d.y}Z`;
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 100) / 100;
}
