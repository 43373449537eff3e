/** The hosts of the simulated cluster, as the stage and the diagram show them. Pure. */

import { all, naturally } from "../reducer.js";

/**
 * @typedef {{name: string, kind: "broker"|"zookeeper"|"client", id: number|null, alive: boolean,
 *   paused: boolean, isolated: boolean, refuses: boolean, disk: string, links: Object<string, string>,
 *   controller: boolean, epoch: number|null, starting: boolean}} Host
 * @typedef {{one: string, other: string, state: string}} Link state: "", "cut", "slow" or "held"
 */

const ORDER = ["client", "broker", "zookeeper"];

/** Return the hosts: client, brokers by number, ZooKeeper.
 * @param {import("../reducer.js").State} state @returns {Host[]} */
export function hostsOf(state) {
  /** @type {Map<number|null, any>} */
  const controllers = new Map(all(state, "controller").map(({ broker, facts }) => [broker, facts]));
  const states = new Map(all(state, "broker").map(({ broker, facts }) => [broker, facts.state]));
  const hosts = all(state, "host").map(({ name, facts }) => {
    const id = name.startsWith("broker-") ? Number(name.slice(7)) : null;
    const kind = id === null ? (name === "zookeeper" ? "zookeeper" : "client") : "broker";
    const controller = controllers.get(id);
    return {
      paused: false, isolated: false, refuses: false, disk: "ok", alive: true, ...facts, links: facts.links ?? {}, name, kind, id,
      controller: Boolean(controller?.active) && facts.alive !== false, epoch: controller?.epoch ?? null,
      starting: states.get(id) !== undefined && states.get(id) !== "RUNNING",
    };
  });
  return /** @type {Host[]} */ (hosts).sort((a, b) =>
    ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || naturally(a.name, b.name));
}

/** Return a link a pair of hosts. @param {Host[]} hosts @returns {Link[]} */
export function linksOf(hosts) {
  return hosts.flatMap((host, i) => hosts.slice(i + 1).map((other) => (
    { one: host.name, other: other.name, state: host.links[other.name] ?? other.links[host.name] ?? "" })));
}

/** "broker-1" -> "broker 1". @param {string} name */
export function spoken(name) {
  return name === "zookeeper" ? "ZooKeeper" : name.replace("-", " ");
}

/** Say how a host is. @param {Host} host @returns {string[]} */
export function conditionOf({ kind, alive, paused, isolated, refuses, disk, controller, starting }) {
  const found = [];
  if (controller) found.push("the controller");
  if (!alive) found.push(kind === "zookeeper" ? "away" : "down");
  else if (starting) found.push("starting");
  if (paused) found.push("paused");
  if (isolated) found.push("isolated");
  if (refuses) found.push("refuses");
  if (disk !== "ok") found.push(`disk ${disk}`);
  return found;
}

/**
 * Return the places of hosts on an ellipse, so that no link passes through a third host: clients
 * and ZooKeeper face each other, brokers are on both arcs between them.
 * @param {Host[]} hosts @param {number} width @param {number} height
 * @returns {Map<string, {x: number, y: number}>}
 */
export function placesOf(hosts, width, height) {
  const upright = height > width;
  const brokers = hosts.filter(({ kind }) => kind === "broker");
  const above = Math.ceil(brokers.length / 2) - (brokers.length % 2);
  const margin = upright ? [56, 64] : [92, 62];
  const radius = [Math.max(30, width / 2 - margin[0]), Math.max(30, height / 2 - margin[1])];
  /** @type {Map<string, {x: number, y: number}>} */
  const places = new Map();
  const put = (/** @type {string} */ name, /** @type {number} */ turn) => {
    const angle = (turn + (upright ? 0.25 : 0)) * 2 * Math.PI; // 0 is right, a quarter is below
    places.set(name, {
      x: width / 2 + radius[0] * Math.cos(angle), y: height / 2 + radius[1] * Math.sin(angle),
    });
  };
  const arc = (/** @type {Host[]} */ some, /** @type {number} */ from, /** @type {number} */ to) =>
    some.forEach(({ name }, i) => put(name, from + ((to - from) * (i + 1)) / (some.length + 1)));
  const count = Math.max(above, brokers.length === 1 ? 1 : above);
  arc(brokers.slice(0, count), 0.5, 1);
  arc(brokers.slice(count), 0.5, 0);
  for (const { name, kind } of hosts) {
    if (kind !== "broker") put(name, kind === "zookeeper" ? 0 : 0.5);
  }
  return places;
}
