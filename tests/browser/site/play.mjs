// Plays recipes with the Python of a built site, in Node:
//   node play.mjs SITE START SCRIPT < JSON {recipes, until_us}
// START is the page's static/learn/python.js, SCRIPT defines outcomes(recipes, until_us).
// Standard output gets the JSON of the outcomes.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [site, start, script] = process.argv.slice(2);
const folder = `${site}/python/`;
// Not by its path: Node takes a .js file for CommonJS.
const source = encodeURIComponent(readFileSync(start, "utf8"));
const { startPython } = await import(`data:text/javascript,${source}`);
const { loadPyodide } = await import(pathToFileURL(`${folder}pyodide.mjs`).href);
const read = async (name) => new Uint8Array(readFileSync(folder + name));
const python = await startPython({ loadPyodide, folder, read }, () => {});
const { recipes, until_us } = JSON.parse(readFileSync(0, "utf8"));
python.pyimport("minikafka.learn.wasm.bridge").leave_pyodides_loop();
python.runPython(readFileSync(script, "utf8"));
console.log(python.globals.get("outcomes")(recipes, until_us));
