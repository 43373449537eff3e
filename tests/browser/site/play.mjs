// Calls a function of a script in the Python of a built site, in Node:
//   node play.mjs SITE START SCRIPT FUNCTION < JSON list of arguments
// START is the page's static/learn/python.js. Standard output gets what the function returns.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [site, start, script, name] = process.argv.slice(2);
const folder = `${site}/python/`;
// Not by its path: Node takes a .js file for CommonJS.
const source = encodeURIComponent(readFileSync(start, "utf8"));
const { startPython } = await import(`data:text/javascript,${source}`);
const { loadPyodide } = await import(pathToFileURL(`${folder}pyodide.mjs`).href);
const read = async (file) => new Uint8Array(readFileSync(folder + file));
const python = await startPython({ loadPyodide, folder, read }, () => {});
python.pyimport("minikafka.page.learn.wasm.bridge").leave_pyodides_loop();
python.runPython(readFileSync(script, "utf8"));
console.log(python.globals.get(name)(...JSON.parse(readFileSync(0, "utf8"))));
