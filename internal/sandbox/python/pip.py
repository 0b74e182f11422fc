# Runs pip and refuses every event that would start a program, such as the build of
# a source distribution or git, so that no code of a package runs. It also refuses
# requirements by URL or path, those of packages too, before it opens or downloads them,
# and files that can block or never end. argv[1] is the directory that contains pip; the
# other arguments are passed to pip.

import os
import runpy
import stat
import sys

_STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.system", "os.exec", "os.spawn", "os.fork", "os.forkpty"})
_DEVICES = frozenset({os.devnull, "/dev/urandom", "/dev/random", "/dev/tty"})


def _refuse(event, args):
    if event == "open":
        _refuse_special(args[0])
    if event not in _STARTS:
        return
    program = os.path.basename(str(args[0])) if args else ""
    if program == "keyring":  # the operator's passwords for an index
        return
    raise PermissionError(f"starting {program or event} is refused: packages are not built here, only wheels are taken")


def _refuse_special(path):
    if not isinstance(path, (str, bytes)) or os.fsdecode(path) in _DEVICES:
        return
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise PermissionError(f"{os.fsdecode(path)} is not a regular file")


def _named_only(make):
    def requirements(self, ireq, requested_extras):
        if ireq.link and ireq.match_markers(requested_extras):
            by = getattr(ireq.comes_from, "name", None)
            raise InstallationError(f"{ireq.name or ireq.link.filename} is required by URL or path{f' by {by}' if by else ''}")
        return make(self, ireq, requested_extras)

    return requirements


def _no_links(self, identifier, constraint, template):
    for link in constraint.links:
        raise InstallationError(f"{identifier} is required by URL or path")
    return ()


sys.addaudithook(_refuse)
sys.path.insert(0, sys.argv.pop(1))
from pip._internal.exceptions import InstallationError
from pip._internal.resolution.resolvelib.factory import Factory

Factory._make_requirements_from_install_req = _named_only(Factory._make_requirements_from_install_req)
Factory._iter_candidates_from_constraints = _no_links
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__")
