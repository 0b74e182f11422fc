"""Runs the code of each line in CPython for WASI under Wasmtime: a new instance of a precompiled module."""

import json
import os
import sys
import tempfile

import wasmtime

folder, wasm, compiled = sys.argv[1:]
engine = wasmtime.Engine()
if os.path.exists(compiled):
    module = wasmtime.Module.deserialize_file(engine, compiled)
else:
    module = wasmtime.Module.from_file(engine, wasm)
    with open(compiled + ".new", "wb") as f:
        f.write(module.serialize())
    os.replace(compiled + ".new", compiled)
linker = wasmtime.Linker(engine)
linker.define_wasi()


def run(code):
    store = wasmtime.Store(engine)
    config = wasmtime.WasiConfig()
    config.argv = ["python", "-I", "-S", "-c", code]
    config.preopen_dir(folder, "/data")
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        config.stdout_file, config.stderr_file = out.name, err.name
        store.set_wasi(config)
        try:
            linker.instantiate(store, module).exports(store)["_start"](store)
        except wasmtime.ExitTrap as e:
            if e.code:
                raise RuntimeError(err.read().decode()) from None
        return out.read().decode().strip()


for line in sys.stdin:
    print(run(json.loads(line)), flush=True)
