"""What belongs to one event loop of one process: connections are of use in no other."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Loop = asyncio.AbstractEventLoop | None  # None: of the threads in which none runs


class Process:
    """Notices a fork. Owner: whatever has something open."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def is_another(self, opened: object) -> bool:
        """Whether it was forked since the last look; what is open is the parent's then, and kept for it."""
        if self._pid == os.getpid():
            return False
        _OF_PARENTS.append(opened)
        self._pid = os.getpid()
        return True


class PerLoop(Generic[T]):
    """What each loop has, made at its first use. Owner: one backend object; any thread may ask.

    Args:
        make: makes what a loop has.
        drop: lets go of what a loop had that is closed.
    """

    def __init__(self, make: Callable[[], T], drop: Callable[[T], None]) -> None:
        self._make = make
        self._drop = drop
        self._guard = threading.Lock()
        self._process = Process()
        self._found: dict[Loop, T] = {}

    def of(self, loop: Loop) -> T:
        """Answer what a loop has."""
        self._forget_parents()
        with self._guard:
            self._forget_closed()
            found = self._found.get(loop)
            if found is None:
                found = self._found[loop] = self._make()
            return found

    def taken(self, loop: Loop) -> T | None:
        """Answer what a loop has, if there is something, and forget it."""
        self._forget_parents()
        with self._guard:
            self._forget_closed()
            return self._found.pop(loop, None)

    def _forget_parents(self) -> None:
        if self._process.is_another(self._found):
            self._found, self._guard = {}, threading.Lock()  # a thread of the parent's may have had the other

    def _forget_closed(self) -> None:
        for loop in [other for other in self._found if other is not None and other.is_closed()]:
            self._drop(self._found.pop(loop))


_OF_PARENTS: list[object] = []  # kept, so that nothing closes what a parent process has open
