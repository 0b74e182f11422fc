// Runs code in Pyodide under Node.js: the argument, or without one the code of each
// line of standard input, all in one interpreter.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, folder, code] = process.argv.slice(2);
const found = createRequire(packages + "/").resolve("pyodide/pyodide.mjs");
const { loadPyodide } = await import(pathToFileURL(found).href);
const python = await loadPyodide();
python.FS.mkdir("/data");
python.FS.mount(python.FS.filesystems.NODEFS, { root: folder }, "/data");
const run = (text) => console.log(python.runPython("import json\n" + text));

if (code !== undefined) run(code);
else for await (const line of createInterface({ input: process.stdin })) run(JSON.parse(line));
