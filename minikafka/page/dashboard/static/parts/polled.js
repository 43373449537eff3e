/**
 * Facts of one topic or group, read again and again while its view is open.
 * @module
 */
import { useEffect, useState } from "./html.js";

/**
 * Return the last response of a path and the last problem. Nothing is read while `live` is false
 * or the page is hidden. `changed` is any value whose change reads at once.
 * @param {{api: any, path: string, live: boolean, everyMs: number, changed?: any}} query
 * @returns {{facts: any, problem: string, at: number}}
 */
export function usePolled({ api, path, live, everyMs, changed }) {
  const [last, setLast] = useState({ path: "", facts: /** @type {any} */ (null), problem: "", at: 0 });
  useEffect(() => {
    if (!live) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      if (document.hidden) {
        timer = setTimeout(read, everyMs);
        return;
      }
      try {
        const facts = await api.get(path, {}, stop.signal);
        setLast({ path, facts, problem: "", at: Date.now() });
      } catch (error) {
        const problem = /** @type {Error} */ (error);
        if (problem.name === "AbortError") return;
        setLast((/** @type {any} */ before) => ({ ...before, path, problem: problem.message }));
      }
      if (!stop.signal.aborted) timer = setTimeout(read, everyMs);
    };
    void read();
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [path, live, everyMs, changed]);
  return last.path === path ? last : { facts: null, problem: "", at: 0 };
}
