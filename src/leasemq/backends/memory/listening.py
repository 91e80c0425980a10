"""Wake-ups inside one process, across its event loops and threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from leasemq.backends.memory.shelf import Shelf
from leasemq.protocol.model import Ref, Wake


class MemoryListener:
    """See `leasemq.backend.Listener`. Owner: the task that opened it; the backend only adds to it."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard = asyncio.Event()
        self._queues = frozenset(queues)
        self._interest: set[Ref] = set()
        self._followed: set[str] = set()
        self._woken: set[str] = set()
        self._cancels: set[Ref] = set()
        self._ended: set[Ref] = set()
        self._changed: set[str] = set()

    def interest(self, refs: Iterable[Ref]) -> None:
        """See `Listener.interest`."""
        self._interest.update(refs)

    def forget(self, refs: Iterable[Ref]) -> None:
        """See `Listener.forget`."""
        self._interest.difference_update(refs)

    def follow(self, queues: Iterable[str]) -> None:
        """See `Listener.follow`."""
        self._followed.update(queues)

    def unfollow(self, queues: Iterable[str]) -> None:
        """See `Listener.unfollow`."""
        self._followed.difference_update(queues)

    async def wait(self, timeout_ms: int) -> Wake:
        """See `Listener.wait`."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._heard.wait()
        except TimeoutError:
            return Wake()
        self._heard.clear()
        wake = Wake(
            queues=frozenset(self._woken),
            cancels=frozenset(self._cancels),
            ended=frozenset(self._ended),
            changed=frozenset(self._changed),
        )
        for heard in (self._woken, self._cancels, self._ended, self._changed):
            heard.clear()
        return wake

    def hear(self, shelf: Shelf) -> None:
        """Take in what just changed on a shelf, from whatever thread changed it."""
        ended = shelf.ended & self._interest
        is_mine = shelf.queue in self._queues
        is_changed = shelf.has_news and shelf.queue in self._followed
        if not ended and not is_changed and not (is_mine and (shelf.woken or shelf.cancels)):
            return
        woken = shelf.queue if shelf.woken and is_mine else None
        changed = shelf.queue if is_changed else None
        cancels = frozenset(shelf.cancels) if is_mine else frozenset()
        if _is_running(self._loop):
            self._note(woken, cancels, ended, changed)
        else:
            with suppress(RuntimeError):  # its loop was closed meanwhile: nobody waits there any more
                self._loop.call_soon_threadsafe(self._note, woken, cancels, ended, changed)

    def _note(
        self, woken: str | None, cancels: Iterable[Ref], ended: Iterable[Ref], changed: str | None
    ) -> None:
        if woken is not None:
            self._woken.add(woken)
        if changed is not None:
            self._changed.add(changed)
        self._cancels.update(cancels)
        self._ended.update(ended)
        self._heard.set()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
