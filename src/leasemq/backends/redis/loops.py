"""One of a thing for each event loop of each process: connections are of use in no other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """What each event loop has, made at first use. Owner: one backend object."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._pid = os.getpid()
        self._found: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self) -> T:
        """Answer the running loop's own."""
        loop = asyncio.get_running_loop()
        self._forget_parent()
        found = self._found.get(loop)
        if found is None:
            for ended in [other for other in self._found if other.is_closed()]:
                del self._found[ended]
            found = self._found[loop] = self._make()
        return found

    def taken(self) -> T | None:
        """Answer the running loop's own, if it has one, and forget it."""
        self._forget_parent()
        return self._found.pop(asyncio.get_running_loop(), None)

    def _forget_parent(self) -> None:
        """Use nothing that a fork copied: the parent has the other end, and the same selector."""
        if self._pid != os.getpid():
            _OF_PARENTS.append(self._found)
            self._found = {}
            self._pid = os.getpid()


_OF_PARENTS: list[object] = []  # kept, so that nothing closes what a parent process has open
