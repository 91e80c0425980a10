"""Whose turn it is to write, among all processes on one file, so that none of them starves.

SQLite lets whoever asks first after a COMMIT write next, which is nearly always the one that has just
written. Two locks on side files make it fair: who holds `-next` is the next to get `-turn`, and gives
`-next` back when it has it; so the one that has just written must queue behind it. A renewal does not
queue for `-next`. Both are courtesies: a process that is frozen with one of them in its hands delays the
others by a moment, and SQLite's own lock alone keeps writers apart.
"""

from __future__ import annotations

import fcntl
import os
import threading

from leasemq.clock import boot_ms

_PATIENCE_MS = 100  # many commits long
_STUCK_PATIENCE_MS = 5  # while its holder seems to be frozen
_LOOK_SECONDS = 0.000_15


class _SideLock:
    """An advisory lock on a file of its own. Owner: one turn."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1
        self._holds = False
        self._is_stuck = False

    def take(self, pause: threading.Event) -> None:
        """Take the lock, or go on without it after a while."""
        if self._file < 0:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        until = 0
        while not self._try():
            now = boot_ms()
            until = until or now + (_STUCK_PATIENCE_MS if self._is_stuck else _PATIENCE_MS)
            if now >= until:
                self._is_stuck = True
                return
            pause.wait(_LOOK_SECONDS)
        self._holds, self._is_stuck = True, False

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def give_back(self) -> None:
        """Let the next one have it."""
        if self._holds:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._holds = False

    def close(self) -> None:
        """Close the file, and with it the lock."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._holds = -1, False


class Turn:
    """One writer's turn. Owner: the thread of one writing connection."""

    def __init__(self, path: str) -> None:
        self._turn = _SideLock(f"{path}-turn")
        self._next = _SideLock(f"{path}-next")
        self._pause = threading.Event()  # never set: waited on instead of sleeping

    def take(self, *, first: bool) -> None:
        """Wait for the turn; `first` does not queue behind writers that wait already.

        Raises: OSError when the side files cannot be made; then there is no queueing.
        """
        if first:
            self._turn.take(self._pause)
            return
        self._next.take(self._pause)
        self._turn.take(self._pause)
        self._next.give_back()

    def give_back(self) -> None:
        """Let the next one write."""
        self._turn.give_back()

    def close(self) -> None:
        """Close the side files; they stay, for the other processes."""
        self._next.close()
        self._turn.close()
