"""Job ids and request ids, made by the client before the first send."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from leasemq.clock import Clock, wall_ms

_TAIL_BITS = 74  # rand_a and rand_b of RFC 9562, section 5.7, as one number
_STEP_BITS = 40  # the next id of the same millisecond cannot be guessed from the last
_STEPS = 64  # drawn at once: asking the system takes longer than all the rest
_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)
_PATIENCE_S = 0.2  # for a lock that is held for some microseconds
_LOW_62 = (1 << 62) - 1
_STEP = (1 << _STEP_BITS) - 1

RandomBits = Callable[[int], int]


def _random_bits(count: int) -> int:
    return int.from_bytes(os.urandom((count + 7) // 8), "big") >> (-count % 8)


class Ids:
    """Makes UUIDv7 texts that only grow within a process (RFC 9562, section 6.2, method 2).

    Owner: the process; any thread may ask, also a signal's handler in the middle of it. A clock that
    steps back does not make ids that do.
    """

    def __init__(self, clock: Clock = wall_ms, random_bits: RandomBits = _random_bits) -> None:
        self._clock = clock
        self._random_bits = random_bits
        self._lock = threading.RLock()
        self._newest_ms = -1
        self._tail = 0
        self._steps: list[int] = []  # not taken yet; whoever pops one is alone to have it

    def new(self) -> str:
        """Answer an id greater, as text, than every id before it."""
        lock = self._lock  # a child that is forked meanwhile gets another
        is_mine = lock.acquire(blocking=False) or lock.acquire(timeout=_PATIENCE_S)
        try:
            number = self._next()
        finally:
            if is_mine:  # else its holder is interrupted by a signal's handler, which waits for this very id
                lock.release()
        text = f"{number | _VERSION_AND_VARIANT:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _next(self) -> int:
        now_ms = self._clock()
        if now_ms > self._newest_ms:
            self._newest_ms = now_ms
            self._tail = self._random_bits(_TAIL_BITS - 1)  # the top bit is room to count up in
        else:
            self._tail += 1 + self._step()
            if self._tail >> _TAIL_BITS:
                self._newest_ms += 1
                self._tail = self._random_bits(_TAIL_BITS - 1)
        return (self._newest_ms << 80) | ((self._tail >> 62) << 64) | (self._tail & _LOW_62)

    def _step(self) -> int:
        try:
            return self._steps.pop()
        except IndexError:
            bits = self._random_bits(_STEPS * _STEP_BITS)
        one, *others = [bits >> place & _STEP for place in range(0, _STEPS * _STEP_BITS, _STEP_BITS)]
        self._steps = others
        return one

    def forget(self) -> None:
        """Start anew; a forked child must not go on counting where its parent does."""
        self._lock = threading.RLock()
        self._steps = []
        self._newest_ms = -1


_ids = Ids()
os.register_at_fork(after_in_child=_ids.forget)


def new_job_id() -> str:
    """Answer a fresh UUIDv7."""
    return _ids.new()


def new_request_number() -> int:
    """Answer a random number below 2**63, by which a backend recognises the repeat of one request."""
    return _random_bits(63)
