// Compiles zip archives of Python sources with the Python of Pyodide. Run by Node:
//   node compile.mjs PYODIDE_FOLDER JOBS     JOBS: JSON [{source, target, level, without}, ...]

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [folder, jobs] = process.argv.slice(2);
const home = resolve(folder);
const { loadPyodide } = await import(pathToFileURL(join(home, "pyodide.mjs")).href);
const pyodide = await loadPyodide({ indexURL: home });
pyodide.runPython(readFileSync(fileURLToPath(new URL("./bytecode.py", import.meta.url)), "utf8"));
const compiled = pyodide.globals.get("compiled");
for (const { source, target, level, without } of JSON.parse(jobs)) {
  const archive = pyodide.toPy(new Uint8Array(readFileSync(source)));
  const found = compiled(pyodide.runPython("bytes")(archive), level, pyodide.toPy(without));
  writeFileSync(target, found.toJs());
}
