/** What can be done to a message: hold, release, go to its moments. */

import { titleOf } from "./actions.js";
import { clockText } from "./pace.js";

/** @param {import("./session.js").LearnSession} session @param {import("./model.js").Wire} wire
 * @param {() => void} [show] opens the diagram @returns {import("./menu.js").Item[]} */
export function messageItems(session, wire, show) {
  const now = session.model.value.wire.get(wire.number) ?? wire;
  const { actions } = session.model.value.catalogue;
  const over = now.lost ? "it is lost" : now.arrived_us !== null ? "it has arrived" : "";
  /** @type {import("./menu.js").Item[]} */
  const items = [];
  for (const action of actions.filter(({ name }) => /^(hold|release|drop)(_message)?$/.test(name))) {
    const argument = action.arguments[0]?.name ?? "message";
    const reason = over || (action.name.startsWith("hold") && now.held ? "it is held" : "")
      || (action.name.startsWith("release") && !now.held ? "it is not held" : "");
    items.push({
      label: titleOf(action.name), title: action.title, reason: reason || undefined,
      act: () => void session.act(action.name, { [argument]: wire.number }),
    });
  }
  items.push({ label: `Go to its sending, ${clockText(now.sent_us)}`, act: () => void session.scrub(now.sent_us) });
  if (now.arrived_us !== null) {
    const arrived = now.arrived_us;
    items.push({ label: `Go to its arrival, ${clockText(arrived)}`, act: () => void session.scrub(arrived) });
  }
  if (show) items.push({ label: "Show it in the diagram", act: show });
  return items;
}
