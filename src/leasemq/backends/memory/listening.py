"""Wake-ups inside one process, across its event loops and threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from leasemq.backends.memory.shelf import Shelf
from leasemq.hearing import Ear
from leasemq.protocol.model import Ref, Wake


class MemoryListener:
    """See `leasemq.backend.Listener`. Owner: the task that opened it; the backend only adds to it."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._ear = Ear()
        self._queues = frozenset(queues)
        self._guard = threading.Lock()  # the interest is read by whatever thread changes a shelf
        self._interest: set[Ref] = set()
        self._followed: set[str] = set()

    def interest(self, refs: Iterable[Ref]) -> None:
        """See `Listener.interest`."""
        with self._guard:
            self._interest.update(refs)

    def forget(self, refs: Iterable[Ref]) -> None:
        """See `Listener.forget`."""
        with self._guard:
            self._interest.difference_update(refs)

    def follow(self, queues: Iterable[str]) -> None:
        """See `Listener.follow`."""
        self._followed.update(queues)

    def unfollow(self, queues: Iterable[str]) -> None:
        """See `Listener.unfollow`."""
        self._followed.difference_update(queues)

    async def wait(self, timeout_ms: int) -> Wake:
        """See `Listener.wait`."""
        return await self._ear.wait(timeout_ms)

    def hear(self, shelf: Shelf) -> None:
        """Take in what just changed on a shelf, from whatever thread changed it."""
        with self._guard:
            ended = shelf.ended & self._interest
        is_mine = shelf.queue in self._queues
        is_changed = shelf.has_news and shelf.queue in self._followed
        if not ended and not is_changed and not (is_mine and (shelf.woken or shelf.cancels)):
            return
        mine = frozenset({shelf.queue})
        self._ear.hear(
            Wake(
                queues=mine if shelf.woken and is_mine else frozenset(),
                cancels=frozenset(shelf.cancels) if is_mine else frozenset(),
                ended=frozenset(ended),
                changed=mine if is_changed else frozenset(),
            )
        )
