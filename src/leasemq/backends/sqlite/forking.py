"""A fork finds no thread of ours inside SQLite.

SQLite's mutexes are copied as they are. One that a thread holds at that moment stays locked in the child,
where that thread does not exist, and the child would hang in its first call.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from weakref import WeakSet


class AtWork:
    """Held by a thread inside SQLite; a fork waits for it. Owner: whoever owns the connection."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        with _registry:
            _all.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


_registry = threading.Lock()
_all: WeakSet[AtWork] = WeakSet()
_held: list[AtWork] = []


def _hold_all() -> None:
    _registry.acquire()
    _held.extend(_all)
    for at_work in _held:
        at_work.__enter__()


def _let_all_go() -> None:
    for at_work in _held:
        at_work.__exit__(None, None, None)
    _held.clear()
    _registry.release()


os.register_at_fork(before=_hold_all, after_in_parent=_let_all_go, after_in_child=_let_all_go)
