"""A process that a function forked is not a second worker: it ends where it would go on as one.

A function may fork; what it forks has a copy of the worker, its leases and its sockets in memory. It may
do what it likes until it comes back to the worker's own code: there it ends, without a word to anybody.
"""

from __future__ import annotations

import asyncio
import os
from weakref import WeakSet

ESCAPED = 70  # the exit code of such a process

_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def end_if_forked(pid: int) -> None:
    """End this process, at once, unless it is the one with this id."""
    if os.getpid() != pid:
        os._exit(ESCAPED)


def never_turn_in_a_fork(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop's first turn in a forked process end that process."""
    _loops.add(loop)


def _end_at_the_next_turn() -> None:
    for loop in _loops:
        if not loop.is_closed():
            loop.call_soon(os._exit, ESCAPED)


os.register_at_fork(after_in_child=_end_at_the_next_turn)
