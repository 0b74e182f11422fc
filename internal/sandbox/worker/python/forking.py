"""Forks the zygote without the fork handlers of the standard library that have nothing to do.

They reset locks, threads and event loops that other threads of the parent may have
used; the zygote has one thread and uses none of these. They took a tenth of the
time of a worker. All handlers run when code forks.
"""

import os

_register = os.register_at_fork
_skipping = False


class Skippable:
    """A context in which modules are imported whose handlers can be skipped."""

    def __enter__(self):
        os.register_at_fork = _register_skippable

    def __exit__(self, *_):
        os.register_at_fork = _register


def _register_skippable(**handlers):
    _register(**{when: _skippable(handler) for when, handler in handlers.items()})


def _skippable(handler):
    def run():
        if not _skipping:
            handler()

    return run


def fork():
    """Fork like os.fork, but skip the handlers that can be skipped."""
    global _skipping
    _skipping = True
    try:
        return os.fork()
    finally:
        _skipping = False
