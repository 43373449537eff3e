/**
 * Starts Python with the session of learn mode, in a worker of a browser or, for tests, in Node.
 */

const PACKAGES = "packages.zip"; // Python imports from it
const NATIVE = ["cramjam.zip", "xxhash.zip"]; // WebAssembly, which is loaded from files

/**
 * @typedef {Object} Files where Pyodide and the packages are
 * @property {(options: any) => Promise<any>} loadPyodide
 * @property {string} folder the folder of Pyodide's files, with a slash at its end
 * @property {(name: string) => Promise<Uint8Array>} read a file of that folder
 */

/** @param {Files} files @param {(sentence: string) => void} onProgress */
export async function startPython({ loadPyodide, folder, read }, onProgress) {
  onProgress("Python is loading.");
  const [python, packages, ...native] = await Promise.all([
    loadPyodide({ indexURL: folder, stdLibURL: `${folder}python_stdlib.zip` }),
    ...[PACKAGES, ...NATIVE].map(read),
  ]);
  onProgress("The brokers are loading.");
  for (const archive of native) python.unpackArchive(archive, "zip");
  python.FS.writeFile(`/lib/${PACKAGES}`, packages);
  python.runPython(`import sys; sys.path.append("/lib/${PACKAGES}")`);
  return python;
}

/** Returns a function that takes the JSON of a request and returns that of the messages.
 * @param {any} python @returns {(request: string) => string} */
export function openSession(python) {
  const bridge = python.pyimport("minikafka.page.learn.wasm.bridge");
  return bridge.open_session(() => performance.now());
}
