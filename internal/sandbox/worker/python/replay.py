"""Makes random numbers and the time repeatable, so that code can be replayed.

An execution with a seed derives its random bytes from it. Its clock readings are sent to the
daemon and, in a replay, returned in the same order. Code can predict only its own random
numbers: each execution has its own seed.

The replacement functions stay installed when the execution ends, since the code may have kept
references to them; then they behave like the originals. Without a seed nothing is replaced.

Not covered: concurrent threads, which draw and read the time in an unspecified order;
/dev/urandom; addresses of objects, and so the order of sets of objects that hash by them.
"""

import _ctypes
import _random
import collections
import datetime
import gc
import itertools
import operator
import os
import random
import sys
import time
import uuid
from _sha3 import shake_256 as _shake  # of hashlib, without its other algorithms

READINGS = 10_000  # recorded at most; later readings use the real clock and are not recorded
_CHUNK = 1 << 20

_urandom, _time_ns = os.urandom, time.time_ns
_seed, _shared = random.Random.seed, random._inst
_getstate, _setstate = _random.Random.getstate, _random.Random.setstate
_time_safe = uuid._generate_time_safe
_localtime, _gmtime, _ctime, _asctime, _strftime = time.localtime, time.gmtime, time.ctime, time.asctime, time.strftime
_clock_gettime, _clock_gettime_ns = time.clock_gettime, time.clock_gettime_ns
_datetime, _replace = datetime.datetime, datetime.datetime.replace
_fromtimestamp = vars(_datetime)["fromtimestamp"].__get__


_BYTES, _RANDOM, _NUMPY = 1, 2, 4


def _numpy_state():
    numpy = sys.modules.get("numpy.random")
    if numpy is None:
        return None
    kind, keys, position, has_gauss, gauss = numpy.get_state()
    return kind, keys.tobytes(), position, has_gauss, gauss


class _Run:
    """The random numbers and the time of one execution."""

    def __init__(self, seed, clock):
        self._seed = seed
        self._draws = itertools.count()
        self._drawn = 0  # changes with each draw
        self._replay = iter(clock)
        self._last = clock[-1] if clock else 0
        self._count = 0  # readings that were replayed or recorded
        self._forks = 0
        self.unsent = collections.deque()  # readings not yet sent to the daemon

    def bytes(self, size):
        self._drawn += 1
        draw = self._seed + next(self._draws).to_bytes(8)
        return b"".join(_shake(draw + at.to_bytes(8)).digest(min(size - at, _CHUNK)) for at in range(0, size, _CHUNK))

    def now(self):
        """Return the next recorded reading in nanoseconds, then the real time, but never less than the last one."""
        if self._count >= READINGS:
            return max(_time_ns(), self._last)
        self._count += 1
        if (reading := next(self._replay, None)) is not None:
            return reading
        reading = max(_time_ns(), self._last)
        self.unsent.append(reading)
        return reading

    def mark(self):
        """Return the position in the random bytes, for has_drawn and advance."""
        return self._seed, self._drawn

    def has_drawn(self, mark):
        return mark != (self._seed, self._drawn)

    def advance(self, mark, key):
        """Continue with random bytes that depend only on the mark and the key."""
        self._seed = _shake(b"step" + mark[0] + key).digest(32)
        self._draws = itertools.count()

    def fork(self):
        self._forks += 1

    def forked(self):
        """Use a seed that differs from those of the parent and its other children."""
        self._seed = _shake(b"fork" + self._seed + self._forks.to_bytes(8)).digest(32)
        self._draws = itertools.count()


class Replay:
    """The current execution with a seed, if there is one."""

    def __init__(self):
        self._run = None
        self._installed = False
        self._before = None  # the state of random

    def begin(self, seed, clock):
        """Begin an execution with seed; clock are the readings to replay, in nanoseconds."""
        if not self._installed:
            self._install()
            self._installed = True
        self._before = _getstate(_shared)
        uuid._generate_time_safe = uuid._last_timestamp = uuid._last_timestamp_v7 = None
        if tempfile := sys.modules.get("tempfile"):
            tempfile._name_sequence = None
        self._run = run = _Run(seed, clock)
        uuid._node = int.from_bytes(run.bytes(6)) | 1 << 40
        self._seed_random()
        if numpy := sys.modules.get("numpy.random"):
            numpy.seed(list(run.bytes(32)))

    def end(self):
        """End the execution and restore the state of random."""
        if self._run is not None:
            self._run = None
            _setstate(_shared, self._before)
            _shared.gauss_next = None
            uuid._generate_time_safe = _time_safe

    # --- steps, whose function does not run in a replay

    def mark(self):
        """Return the state of the random generators before a step, or None."""
        if self._run is None:
            return None
        return self._run.mark(), _getstate(_shared), _numpy_state()

    def advance(self, mark, key, drew=None):
        """Continue after a step with random numbers that depend only on the mark and the key.

        Generators that the function did not use continue as they are: drew is what this method
        returned when the function ran, or None if it has just run.
        """
        if mark is None or self._run is None:
            return 0
        seed, shared, numpy = mark
        if drew is None:
            now = _numpy_state()
            drew = _BYTES if self._run.has_drawn(seed) else 0
            drew |= _RANDOM if _getstate(_shared) != shared else 0
            drew |= _NUMPY if now is not None and now != numpy else 0
        if drew:
            self._run.advance(seed, key)
        if drew & _RANDOM:
            self._seed_random()
            _shared.gauss_next = None
        if drew & _NUMPY and (numpy := sys.modules.get("numpy.random")):
            numpy.seed(list(self._run.bytes(32)))
        return drew

    def unsent(self):
        """Return and remove the clock readings not yet sent to the daemon."""
        readings = self._run.unsent if self._run is not None else ()
        return [readings.popleft() for _ in range(len(readings))]

    def _seed_random(self):
        _seed(_shared, int.from_bytes(self._run.bytes(32)))

    # --- replacement functions

    def _install(self):
        self._install_random()
        self._install_time()
        os.register_at_fork(before=self._fork, after_in_child=self._forked)

    def _fork(self):
        if self._run is not None:
            self._run.fork()

    def _forked(self):
        if self._run is not None:
            self._run.forked()
            self._seed_random()

    def _install_random(self):
        def urandom(size, /):
            if self._run is None:
                return _urandom(size)
            if (size := operator.index(size)) < 0:
                raise ValueError("negative argument not allowed")
            return self._run.bytes(size)

        def seed(random, a=None, version=2):
            if a is None and self._run is not None:
                a = int.from_bytes(self._run.bytes(32))
            return _seed(random, a, version)

        os.urandom = random._urandom = urandom
        random.Random.seed = _named(seed, _seed)
        random.seed = _shared.seed

    def _install_time(self):
        def ns():
            return _time_ns() if self._run is None else self._run.now()

        def seconds():
            return ns() / 1_000_000_000

        def localtime(secs=None, /):
            return _localtime(seconds() if secs is None else secs)

        def gmtime(secs=None, /):
            return _gmtime(seconds() if secs is None else secs)

        def ctime(secs=None, /):
            return _ctime(seconds() if secs is None else secs)

        def asctime(t=None, /):
            return _asctime(localtime() if t is None else t)

        def strftime(format, t=None, /):
            return _strftime(format, localtime() if t is None else t)

        def clock_gettime(clk_id, /):
            return seconds() if clk_id == time.CLOCK_REALTIME else _clock_gettime(clk_id)

        def clock_gettime_ns(clk_id, /):
            return ns() if clk_id == time.CLOCK_REALTIME else _clock_gettime_ns(clk_id)

        time.time, time.time_ns = _named(seconds, time.time), _named(ns, time.time_ns)
        for f in (localtime, gmtime, ctime, asctime, strftime, clock_gettime, clock_gettime_ns):
            setattr(time, f.__name__, _named(f, getattr(time, f.__name__)))
        _install_datetime(ns)


def _install_datetime(ns):
    """Make datetime.now and utcnow read the time from ns. today, also of date, calls time.time already."""

    def at(kind, tz):
        secs, rest = divmod(ns(), 1_000_000_000)
        return _replace(_fromtimestamp(None, kind)(secs, tz), microsecond=rest // 1000)

    def now(cls, tz=None):
        return at(cls, tz)

    def utcnow(cls):
        return at(cls, datetime.UTC).replace(tzinfo=None)

    # The class is implemented in C and rejects assignment, and a replacement class would not be
    # the class of objects made in C. So write to its dict and invalidate its lookup cache.
    (names,) = gc.get_referents(vars(_datetime))
    for f in (now, utcnow):
        names[f.__name__] = classmethod(_named(f, names[f.__name__]))
    _modified(_object(_datetime))


class _object(_ctypes._SimpleCData):
    _type_ = "O"


class _api(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI
    _restype_ = None


_modified = _api(_ctypes.dlsym(_ctypes.dlopen(None, 0), "PyType_Modified"))


def _named(f, like):
    f.__name__, f.__qualname__, f.__doc__ = like.__name__, like.__qualname__, like.__doc__
    f.__module__ = getattr(like, "__module__", None)
    return f
