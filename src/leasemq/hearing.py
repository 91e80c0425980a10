"""What was heard and not told yet: the half of a listener that is the same for every backend."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from leasemq.protocol.model import Ref, Wake


class Ear:
    """Keeps what one listener heard until somebody waits. Owner: the listener, in the loop it was opened in.

    Any thread may speak to it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._has_heard = asyncio.Event()
        self._queues: set[str] = set()
        self._cancels: set[Ref] = set()
        self._ended: set[Ref] = set()
        self._changed: set[str] = set()

    def hear(self, told: Wake) -> None:
        """Take in what happened, from whatever thread."""
        if _is_running(self._loop):
            self._take(told)
            return
        with suppress(RuntimeError):  # its loop was closed meanwhile: nobody waits there any more
            self._loop.call_soon_threadsafe(self._take, told)

    async def wait(self, timeout_ms: int) -> Wake:
        """See `Listener.wait`."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._has_heard.wait()
        except TimeoutError:
            return Wake()
        self._has_heard.clear()
        heard = Wake(
            queues=frozenset(self._queues),
            cancels=frozenset(self._cancels),
            ended=frozenset(self._ended),
            changed=frozenset(self._changed),
        )
        for told in (self._queues, self._cancels, self._ended, self._changed):
            told.clear()
        return heard

    def _take(self, told: Wake) -> None:
        self._queues |= told.queues
        self._cancels |= told.cancels
        self._ended |= told.ended
        self._changed |= told.changed
        self._has_heard.set()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
