/**
 * What an event of a broker's log is about, and what it says in a sentence. The names and facts are
 * those that the package logs (`log.info("isr_shrinking", partition=...)`); a test compares them.
 */

/**
 * @typedef {{at: number, broker: number|null, number?: number, level: string, name: string,
 *   facts: Object<string, any>}} LogEvent
 * @typedef {{partitions?: string[], brokers?: number[], groups?: string[], transactions?: string[],
 *   topics?: string[]}} Subjects
 * @typedef {{about: (facts: any, broker: number|null) => Subjects,
 *   says: (facts: any, broker: number|null) => string}} Story
 */

/** Return the elements of a fact, which may be a list, one value or missing. @param {any} fact @returns {any[]} */
const all = (fact) => [fact ?? []].flat();
const partition = (/** @type {any} */ facts) => ({ partitions: all(facts.partition) });
const log = (/** @type {any} */ facts) => ({
  partitions: all(facts.log).map((path) => path.replace(/^.*\//, "")),
});
const group = (/** @type {any} */ facts) => ({ groups: all(facts.group) });
const own = (/** @type {any} */ _facts, /** @type {number|null} */ broker) => ({
  brokers: broker === null ? [] : [broker],
});
const list = (/** @type {any} */ fact) => all(fact).join(", ") || "none";
const many = (/** @type {any} */ fact, /** @type {string} */ noun) =>
  `${noun}${all(fact).length === 1 ? "" : "s"} ${all(fact).join(", ")}`;
const without = (/** @type {any} */ fact, /** @type {any} */ other) =>
  list(all(fact).filter((value) => !all(other).includes(value)));

/** @type {Object<string, Story>} */
export const STORIES = {
  // ---- brokers
  broker_started: { about: own, says: (_, b) => `Broker ${b} started.` },
  broker_stopped: { about: own, says: (_, b) => `Broker ${b} stopped in order.` },
  broker_registered: {
    about: own,
    says: (f, b) => `Broker ${b} registered in ZooKeeper with epoch ${f.epoch}.`,
  },
  broker_found_gone: {
    about: (f) => ({ brokers: [f.gone_broker] }),
    says: (f, b) =>
      `Broker ${b} found broker ${f.gone_broker} gone: ${list(f.refused)} refused connections twice. It deleted the registration with epoch ${f.epoch}, of the session ${f.session}.`,
  },
  old_registration_removed: {
    about: own,
    says: (f, b) =>
      `Broker ${b} deleted the registration of its earlier run, with epoch ${f.epoch}, of the session ${f.session}: ${list(f.refused)} refused connections twice.`,
  },
  registration_lost: {
    about: own,
    says: (f, b) =>
      `Broker ${b} lives, but its registration with epoch ${f.epoch} was deleted. It registers again.`,
  },
  controlled_shutdown_requested: {
    about: (f) => ({ brokers: [f.leaving_broker] }),
    says: (f) =>
      `Broker ${f.leaving_broker} requested a controlled shutdown: its leaderships move away first.`,
  },
  controlled_shutdown_succeeded: {
    about: own,
    says: (_, b) => `Broker ${b} has handed over all its leaderships.`,
  },
  controlled_shutdown_failed: {
    about: own,
    says: (_, b) => `Broker ${b} stops without having handed over all leaderships.`,
  },
  brokers_changed: {
    about: (f) => ({ brokers: [...all(f.dead), ...all(f.bounced)] }), // new ones: brokers_started
    says: (f) => {
      const parts = [
        all(f.new).length ? `new: ${list(f.new)}` : "",
        all(f.dead).length ? `gone: ${list(f.dead)}` : "",
        all(f.bounced).length ? `restarted: ${list(f.bounced)}` : "",
      ].filter(Boolean);
      return `The controller noticed a change of brokers (${parts.join("; ") || "none"}).`;
    },
  },
  brokers_failed: {
    about: (f) => ({ brokers: all(f.brokers) }),
    says: (f) => `The controller handles the loss of ${many(f.brokers, "broker")}.`,
  },
  brokers_started: {
    about: (f) => ({ brokers: all(f.brokers) }),
    says: (f) => `The controller brings the replicas of ${many(f.brokers, "broker")} online.`,
  },
  session_expired: { about: own, says: (_, b) => `The ZooKeeper session of broker ${b} expired.` },
  session_opened: { about: own, says: (_, b) => `Broker ${b} opened a ZooKeeper session.` },
  zookeeper_connection_lost: {
    about: own,
    says: (_, b) => `Broker ${b} lost its connection to ZooKeeper.`,
  },
  zookeeper_reconnected: {
    about: own,
    says: (f, b) => `Broker ${b} reached ZooKeeper again after ${f.after_ms} ms.`,
  },
  session_open_failed: {
    about: own,
    says: (f, b) => `Broker ${b} cannot open a ZooKeeper session: ${f.error}.`,
  },
  loop_stalled: {
    about: own,
    says: (f, b) =>
      `The event loop of broker ${b} stood still for ${f.stalled_ms} ms${f.api ? `, while it handled ${f.api} of ${f.client_id || f.client}` : ""}.`,
  },

  // ---- replication
  leader_lost: {
    about: (f, b) => ({ brokers: [f.source, b ?? -1] }),
    says: (f, b) =>
      `Broker ${b} lost its connection to broker ${f.source}, from which it fetches: ${f.error}.`,
  },
  leader_not_reached: {
    about: (f, b) => ({ brokers: [f.source, b ?? -1] }),
    says: (f, b) =>
      `Broker ${b} cannot reach broker ${f.source}, from which it fetches: ${f.error}.`,
  },
  leader_reached: {
    about: (f, b) => ({ brokers: [f.source, b ?? -1] }),
    says: (f, b) => `Broker ${b} fetches from broker ${f.source} again.`,
  },
  isr_shrinking: {
    about: partition,
    says: (f, b) =>
      `Leader ${b} takes ${without(f.old, f.new)} out of the ISR of ${f.partition}: (${list(f.old)}) becomes (${list(f.new)}).`,
  },
  isr_expanding: {
    about: partition,
    says: (f, b) =>
      `Leader ${b} takes ${without(f.new, f.old)} into the ISR of ${f.partition}: (${list(f.old)}) becomes (${list(f.new)}).`,
  },
  isr_refused: {
    about: partition,
    says: (f) => `The controller refused a change of the ISR of ${f.partition}: ${f.reason}.`,
  },
  isr_write_lost_race: {
    about: partition,
    says: (f) =>
      `A newer state of ${f.partition} was there before the ISR was written: ${f.reason}.`,
  },
  replica_became_leader: {
    about: partition,
    says: (f, b) => `Broker ${b} became the leader of ${f.partition} in epoch ${f.leader_epoch}.`,
  },
  replica_became_follower: {
    about: partition,
    says: (f, b) =>
      `Broker ${b} follows broker ${f.leader} for ${f.partition} in epoch ${f.leader_epoch}.`,
  },
  replica_stopped: {
    about: partition,
    says: (f, b) =>
      `Broker ${b} stopped its replica of ${f.partition}${f.delete ? " and deletes it" : ""}.`,
  },
  replica_truncated: {
    about: partition,
    says: (f, b) =>
      `Broker ${b} cut its replica of ${f.partition} from offset ${f.log_end_offset} to ${f.offset}, where the leader's log differs.`,
  },
  replica_failed: {
    about: partition,
    says: (f, b) => `The replica of ${f.partition} on broker ${b} failed: ${f.error}.`,
  },
  replica_disk_filled: {
    about: partition,
    says: (f, b) => `The disk of broker ${b} is full: it cannot append to ${f.partition}.`,
  },

  // ---- disks
  disk_failed: {
    about: partition,
    says: (f, b) => `Broker ${b} could not read or write ${f.partition}: ${f.error}.`,
  },
  flush_failed: {
    about: log,
    says: (f, b) => `Broker ${b} could not flush ${f.log}: ${f.error}.`,
  },
  log_directory_failed: {
    about: own,
    says: (f, b) =>
      `Broker ${b} took its log directory ${f.directory} with ${f.logs} logs offline: ${f.error}.`,
  },
  log_directory_filled: {
    about: own,
    says: (f, b) => `The disk of ${f.directory} on broker ${b} is full.`,
  },
  log_directory_space_regained: {
    about: own,
    says: (_, b) => `Broker ${b} can write to its disk again.`,
  },
  replicas_taken_offline: {
    about: (f) => ({ partitions: all(f.partitions) }),
    says: (f, b) => `Broker ${b} took ${all(f.partitions).length} replicas offline.`,
  },
  replicas_went_offline: {
    about: (f) => ({
      brokers: [f.hosting_broker],
      partitions: all(f.partitions),
    }),
    says: (f) => `The controller knows that replicas of broker ${f.hosting_broker} are offline.`,
  },

  // ---- controller
  controller_elected: {
    about: () => ({}),
    says: (f, b) => `Broker ${b} was elected controller with epoch ${f.epoch}.`,
  },
  controller_resigned: {
    about: () => ({}),
    says: (_, b) => `Broker ${b} is not the controller any more.`,
  },
  controller_moved: {
    about: () => ({}),
    says: (f, b) => `Broker ${b} noticed during ${f.during} that another broker is controller.`,
  },
  controller_moved_already: {
    about: () => ({}),
    says: (f, b) => `Broker ${b} stood for election after broker ${f.active_controller}.`,
  },
  elected_controller_resigned: {
    about: () => ({}),
    says: () => "The elected controller resigned before its election was noticed.",
  },
  controller_failover_failed: {
    about: () => ({}),
    says: (_, b) => `Broker ${b} was elected controller, and failed to take over.`,
  },
  controller_failover_completed: {
    about: () => ({}),
    says: (f, b) => `Controller ${b} took over with epoch ${f.epoch}.`,
  },
  event_failed: {
    about: () => ({}),
    says: (f, b) => `Controller ${b} failed in ${f.event_kind} and resigns.`,
  },
  request_failed_reconnecting: {
    about: (f) => ({ brokers: [f.target_broker] }),
    says: (f) =>
      `The controller cannot send ${f.kind} to broker ${f.target_broker}: ${f.error}.`,
  },
  broker_queue_overflowed: {
    about: (f) => ({ brokers: [f.target_broker] }),
    says: (f) => `Too many requests of the controller wait for broker ${f.target_broker}.`,
  },
  broker_connected: {
    about: (f) => ({ brokers: [f.target_broker] }),
    says: (f) => `The controller reached broker ${f.target_broker}.`,
  },
  partition_state_changed: {
    about: partition,
    says: (f) => `${f.partition} went from ${f.before} to ${f.after}.`,
  },
  offline_partition_leader_elected: {
    about: partition,
    says: (f) =>
      `Broker ${f.leader} was elected leader of ${f.partition} in epoch ${f.leader_epoch}, with the ISR (${list(f.isr)}).`,
  },
  unclean_leader_elected: {
    about: partition,
    says: (f) =>
      `Broker ${f.leader} became leader of ${f.partition} without having been in the ISR: records may be lost.`,
  },
  partition_state_change_failed: {
    about: partition,
    says: (f) => `${f.partition} could not go from ${f.before} to ${f.after}: ${f.error}.`,
  },
  replica_state_change_failed: {
    about: partition,
    says: (f) =>
      `Replica ${f.replica} of ${f.partition} could not go from ${f.before} to ${f.after}: ${f.error}.`,
  },
  topic_deletion_halted: {
    about: (f) => ({ topics: all(f.topics) }),
    says: (f) => `The deletion of ${list(f.topics)} was halted: ${f.reason}.`,
  },
  topic_deletion_completed: {
    about: (f) => ({ topics: all(f.topic) }),
    says: (f) => `Topic ${f.topic} is deleted.`,
  },
  topic_deletion_requested: {
    about: (f) => ({ topics: all(f.topics ?? f.topic) }),
    says: (f) => `The deletion of ${list(f.topics ?? f.topic)} was requested.`,
  },
  new_replicas_awaited: {
    about: partition,
    says: (f) => `The reassignment of ${f.partition} waits until its new replicas have caught up.`,
  },

  // ---- groups
  rebalance_prepared: { about: group, says: (f) => `Group ${f.group} rebalances: ${f.reason}.` },
  group_stabilized: {
    about: group,
    says: (f) =>
      `${f.members === 1 ? "The only member" : `All ${f.members} members`} of ${f.group} joined generation ${f.generation}.`,
  },
  assignment_received: {
    about: group,
    says: (f) => `The leader of ${f.group} sent the assignments of generation ${f.generation}.`,
  },
  member_failed: {
    about: group,
    says: (f) =>
      `Member ${f.member} of ${f.group} sent no heartbeat for ${f.session_timeout_ms} ms and was removed.`,
  },
  member_left: { about: group, says: (f) => `Member ${f.member} left ${f.group}: ${f.reason}.` },
  member_removed: {
    about: group,
    says: (f) => `Member ${f.member} was removed from ${f.group}: ${f.reason}.`,
  },
  classic_group_upgraded: {
    about: group,
    says: (f) => `${f.group} became a consumer group with ${f.members} members of the classic protocol.`,
  },
  consumer_group_downgraded: {
    about: group,
    says: (f) => `${f.group} became a classic group with ${f.members} members.`,
  },
  static_member_replaced: {
    about: group,
    says: (f) => `A static member of ${f.group} came back with another member id.`,
  },
  pending_member_expired: {
    about: group,
    says: (f) => `A new member of ${f.group} got an id and did not join with it.`,
  },
  rebalance_without_members_postponed: {
    about: group,
    says: (f) => `No member of ${f.group} has joined again; the rebalance waits for one.`,
  },
  group_emptied: { about: group, says: (f) => `Group ${f.group} has no members any more.` },
  group_deleted: { about: group, says: (f) => `Group ${f.group} was deleted.` },

  // ---- transactions
  transaction_timed_out: {
    about: (f) => ({ transactions: [f.transactional_id] }),
    says: (f) =>
      `Transaction ${f.transactional_id} was open for longer than ${f.timeout_ms} ms; the coordinator aborts it.`,
  },
  marker_fenced: {
    about: (f) => ({ transactions: [f.transactional_id] }),
    says: (f) =>
      `A marker of ${f.transactional_id} was refused, since the producer epoch is older.`,
  },
};

/** Return the sentence of an event; of an unknown one its name in words. @param {LogEvent} event */
export function sentence(event) {
  const story = Object.hasOwn(STORIES, event.name) ? STORIES[event.name] : null;
  if (story) return story.says(event.facts, brokerOf(event));
  const words = event.name.replaceAll("_", " ");
  return `${words[0].toUpperCase()}${words.slice(1)}.`;
}

/** @type {WeakMap<LogEvent, Subjects>} events do not change, and every finding looks at all of them */
const known = new WeakMap();

/** Return what an event is about. @param {LogEvent} event @returns {Subjects} */
export function subjects(event) {
  let found = known.get(event);
  if (!found) {
    const story = Object.hasOwn(STORIES, event.name) ? STORIES[event.name] : null;
    found = story ? story.about(event.facts, brokerOf(event)) : {};
    known.set(event, found);
  }
  return found;
}

/** The broker of an event: the one in whose log it is, else the one it names. @param {LogEvent} event */
function brokerOf(event) {
  return event.broker ?? event.facts.broker ?? null;
}
