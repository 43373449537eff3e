/** What the parts of `findings` share: words, and how a finding is made. */

/** @typedef {import("./event_chains.js").Link} Link */
/** @typedef {import("./why_findings.js").Finding} Finding */
/** @typedef {import("./why_findings.js").Severity} Severity */

/**
 * @param {string} id @param {Severity} severity @param {string} title @param {string} detail
 * @param {{path: string, label: string}} view @param {Link[]} links
 * @returns {Finding}
 */
export function finding(id, severity, title, detail, view, links) {
  return { id, kind: id.replace(/-\d.*$/, ""), severity, title, detail, view, chain: links };
}

/** @template T @param {Iterable<T>} rows @param {(row: T) => string} key @returns {Map<string, T[]>} */
export function byKey(rows, key) {
  /** @type {Map<string, T[]>} */
  const groups = new Map();
  for (const row of rows) {
    const name = key(row);
    const group = groups.get(name);
    if (group) group.push(row);
    else groups.set(name, [row]);
  }
  return groups;
}
