"""Waits for a time or an event; the daemon may end the worker, and run the code again when it continues."""

import datetime
import math
import threading

_FUTURE = 253_402_300_800  # the year 10000, in seconds since 1970


class Waits:
    def __init__(self, channel):
        self._channel = channel

    def sleep_until(self, when):
        """Wait until a time: a datetime, an ISO string or seconds since 1970. Long waits need no process, and survive restarts."""
        self._wait({"until": _seconds(when)})

    def sleep_for(self, seconds):
        """Wait some seconds, like sleep_until."""
        self._wait({"for": _span("sleep_for(seconds)", seconds)})

    def wait_for(self, event, timeout=None):
        """Wait for a signal and return its JSON value; raise TimeoutError after timeout seconds.

        `sandpiper executions signal ID EVENT [JSON]` and the tool signal_execution send it.
        """
        if not isinstance(event, str) or not 0 < len(event) <= 200:
            raise ValueError(f"wait_for(event, timeout): the event must be text of 1 to 200 characters, got {event!r:.200}")
        args = {"event": event}
        if timeout is not None:
            args["for"] = _span("wait_for(event, timeout)", timeout)
        answer = self._wait(args)
        if "value" not in answer:
            raise TimeoutError(f"no signal {event!r} arrived within {timeout} s")
        return answer["value"]

    def _wait(self, args):
        args["alone"] = threading.active_count() == 1
        return self._channel.call("wait", args)


def _span(what, seconds):
    if isinstance(seconds, datetime.timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < _FUTURE:
        raise ValueError(f"{what}: a number of seconds from 0 is needed, got {seconds!r:.100}")
    return seconds


def _seconds(when):
    """Return a time as seconds since 1970. A time without a zone is in the zone of the sandbox, UTC."""
    at = when
    if isinstance(at, str):
        try:
            at = datetime.datetime.fromisoformat(at)
        except ValueError:
            raise ValueError(f"sleep_until(when): {when!r:.100} is not an ISO time like 2026-12-31T09:00:00+01:00") from None
    if isinstance(at, datetime.datetime):
        at = at.timestamp()
    if isinstance(at, bool) or not isinstance(at, (int, float)) or math.isnan(at) or not at < _FUTURE:
        raise ValueError(f"sleep_until(when): a datetime, an ISO string or seconds since 1970 is needed, got {when!r:.100}")
    return max(at, 0)
