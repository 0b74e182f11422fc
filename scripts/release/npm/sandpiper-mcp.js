#!/usr/bin/env node
// Starts the program of the package for this system, with the arguments and the streams of this one.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

function find() {
  const name = `sandpiper-mcp-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/bin/sandpiper`);
  } catch {
    const remedy =
      process.platform === "linux"
        ? `the package ${name} is missing: install sandpiper-mcp again, with optional dependencies; there are packages for x64 and arm64`
        : "this package runs on Linux; the archive for this system, which runs Sandpiper in a container, is on https://github.com/sandpiper-mcp/sandpiper/releases";
    console.error(`error: ${remedy}`);
    process.exit(1);
  }
}

const child = spawn(find(), process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (err) => {
  console.error(`error: ${err.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
