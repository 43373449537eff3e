/**
 * The worker of a tab in which learn mode runs without a server: Pyodide with the simulated cluster.
 * It receives {id, request} and sends {id, messages} or {id, error}, and {progress} while it loads.
 */

import { openSession, startPython } from "./python.js";

const FOLDER = new URL("../../python/", import.meta.url).href;

const session = start();

async function start() {
  const tell = (/** @type {string} */ sentence) => postMessage({ progress: sentence });
  const { loadPyodide } = await import(`${FOLDER}pyodide.mjs`);
  const read = async (/** @type {string} */ name) => {
    const response = await fetch(FOLDER + name);
    if (!response.ok) throw new Error(`The site has no file ${name} (${response.status}).`);
    return new Uint8Array(await response.arrayBuffer());
  };
  const python = await startPython({ loadPyodide, folder: FOLDER, read }, tell);
  return openSession(python);
}

onmessage = async ({ data: { id, request } }) => {
  try {
    const carryOut = await session;
    postMessage({ id, messages: JSON.parse(carryOut(JSON.stringify(request))) });
  } catch (error) {
    postMessage({ id, error: lastLine(error) });
  }
};

/** The last line of a traceback says what happened. @param {any} error */
function lastLine(error) {
  console.error(error);
  return String(error?.message ?? error).trim().split("\n").at(-1);
}
