# Runs pip and refuses every event that would start a program, such as the build of
# a source distribution or git, so that no code of a package runs. argv[1] is the
# directory that contains pip; the other arguments are passed to pip.

import os
import runpy
import sys

_STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.system", "os.exec", "os.spawn", "os.fork", "os.forkpty"})


def _refuse(event, args):
    if event not in _STARTS:
        return
    program = os.path.basename(str(args[0])) if args else ""
    if program == "keyring":  # the operator's passwords for an index
        return
    raise PermissionError(f"starting {program or event} is refused: packages are not built here, only wheels are taken")


sys.addaudithook(_refuse)
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__")
