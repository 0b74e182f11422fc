"""Runs modules of CPython's own tests and records what became of each test.

    run.py LOG SECONDS MODULE...            all tests of the modules
    run.py LOG SECONDS --only FILE          the tests whose ids FILE lists

Tests that without.txt beside this file lists are left out. LOG gets one JSON object a line: id, outcome (ok, skip, fail, error, died, hung),
a note that says why it is not ok, and how long it took. A test is hung after SECONDS; it costs
its process, and the module is continued in another one without it.
"""

import faulthandler
import fnmatch
import json
import multiprocessing.context
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

HUNG = 3  # exit status of a child that ended itself because of one test


class Recorder(unittest.TestResult):
    """Writes each test's outcome when it is known, for a process that may not live to tell."""

    def __init__(self, log, seconds):
        super().__init__()
        self.log, self.seconds = log, seconds
        self.outcome, self.began = None, 0.0

    def write(self, **entry):
        self.log.write(json.dumps(entry) + "\n")
        self.log.flush()

    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.began = ("ok", ""), time.monotonic()
        self.write(id=test.id(), outcome="started")
        faulthandler.dump_traceback_later(self.seconds, exit=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        self.write(id=test.id(), outcome=self.outcome[0], note=self.outcome[1], seconds=round(time.monotonic() - self.began, 1))
        self.outcome = None
        super().stopTest(test)

    def settle(self, test, outcome, note):
        if self.outcome is None:  # a fixture of a class or module
            self.write(id=test.id(), outcome=outcome, note=note)
        elif self.outcome[0] in ("ok", "skip"):
            self.outcome = (outcome, note)

    def addError(self, test, err):
        self.settle(test, "error", last_line(err))

    def addFailure(self, test, err):
        self.settle(test, "fail", last_line(err))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self.settle(test, "fail" if failed else "error", f"{subtest._subDescription()} {last_line(err)}")

    def addSkip(self, test, reason):
        self.settle(test, "skip", reason)

    def addExpectedFailure(self, test, err):
        pass

    def addUnexpectedSuccess(self, test):
        self.settle(test, "fail", "unexpected success")


def last_line(err):
    """Say what was raised, and where in the tests' or the library's code."""
    where = traceback.extract_tb(err[2])[-1]
    said = " ".join("".join(traceback.format_exception_only(err[1])).split())
    return f"{said[-300:]} [{os.path.basename(where.filename)} {where.name}]"


def leaves(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from leaves(test)
        else:
            yield test


class LaterManager:
    """A multiprocessing.Manager that starts when it is used.

    Tests of concurrent.futures make one each, and few use it: it needs sockets,
    and what does not should be seen.
    """

    def __init__(self, context):
        self._start, self._manager = lambda: REAL_MANAGER(context), None

    def __getattr__(self, name):
        self._manager = self._manager or self._start()
        return getattr(self._manager, name)

    def shutdown(self):
        if self._manager:
            self._manager.shutdown()


REAL_MANAGER = multiprocessing.context.BaseContext.Manager


def left_out(test_id, patterns):
    return any(fnmatch.fnmatchcase(test_id, p) for p in patterns)


def without_sockets(socket_helper):
    """Tell the tests' helper, which expects that at least a socket can be made."""
    try:
        socket.socket(socket.AF_UNIX).close()
    except OSError as e:
        socket_helper._bind_nix_socket_error = e


def child(log, seconds, modules, only, without):
    from test import support
    from test.support import socket_helper

    without_sockets(socket_helper)
    support.use_resources = {}  # neither the network nor large files nor long computations
    support.verbose = False
    loader = unittest.defaultTestLoader
    with open(log, "a") as f:
        result = Recorder(f, seconds)
        for module in modules:
            if module.startswith("test_concurrent_futures"):
                multiprocessing.context.BaseContext.Manager = lambda context: LaterManager(context)
            tests = leaves(loader.loadTestsFromName("test." + module))
            wanted = (t for t in tests if (only is None or t.id() in only) and not left_out(t.id(), without))
            unittest.TestSuite(wanted).run(result)


def entries(log):
    with open(log) as f:
        return [json.loads(line) for line in f]


def module_of(test_id):
    """Return the module's name of a test's or a fixture's id, relative to package test."""
    name = test_id.split("(")[-1].rstrip(")").removeprefix("test.")
    parts = name.split(".")
    while parts and not parts[-1].startswith("test_"):
        parts.pop()
    while len(parts) > 1 and not os.path.exists(os.path.join(os.path.dirname(__import__("test").__file__), *parts) + ".py"):
        parts.pop()
    return ".".join(parts)


def in_child(request):
    """Answer with the status and stderr of a child; what it left running is killed."""
    with tempfile.TemporaryFile("w+", errors="replace") as stdin, tempfile.TemporaryFile("w+", errors="replace") as err:
        stdin.write(request)
        stdin.seek(0)
        p = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", __file__, "--child"], stdin=stdin, stdout=subprocess.DEVNULL, stderr=err,
            start_new_session=True,
        )
        try:
            p.wait(15 * 60)
        except subprocess.TimeoutExpired:
            err.write("the module took too long")
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except OSError:
            pass
        status = p.wait()
        err.seek(0)
        return status, err.read()


def run(log, seconds, module, only):
    """Run one module in as many processes as it takes."""
    with open(os.path.join(os.path.dirname(__file__), "without.txt")) as f:
        without = {line.strip() for line in f if line.strip() and not line.startswith("#")}
    for _ in range(50):
        before = len(entries(log)) if os.path.exists(log) else 0
        request = json.dumps([log, seconds, [module], only and sorted(only), sorted(without)])
        status, err = in_child(request)
        done = entries(log)[before:] if os.path.exists(log) else []
        running = {e["id"] for e in done if e["outcome"] == "started"} - {e["id"] for e in done if e["outcome"] != "started"}
        with open(log, "a") as f:
            for test in running:
                hung = "Timeout (" in err
                f.write(json.dumps({"id": test, "outcome": "hung" if hung else "died", "note": err.strip()[-600:]}) + "\n")
            if status and not running:
                f.write(json.dumps({"id": module, "outcome": "died", "note": f"status {status}: {err.strip()[-600:]}"}) + "\n")
        if not running:
            return
        without |= {e["id"] for e in done}


def main(argv):
    if argv == ["--child"]:
        return child(*json.load(sys.stdin))
    log, seconds, *modules = argv
    only = None
    if modules[0] == "--only":
        with open(modules[1]) as f:
            only = set(f.read().split("\n"))
        modules = sorted({module_of(t) for t in only})
    for module in modules:
        start = time.monotonic()
        run(log, int(seconds), module, only)
        with open(log, "a") as f:
            f.write(json.dumps({"id": module, "outcome": "time", "note": f"{time.monotonic() - start:.1f}"}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
